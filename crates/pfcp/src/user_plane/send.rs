//! Messages that the node sends: responses, and requests of its own.

use std::net::{IpAddr, SocketAddr};

use super::{Datagram, Sent, UserPlane};
use crate::codec::{Header, Message};
use crate::transactions::TransactionId;

impl UserPlane {
    /// Sends a message that answers nothing that is noted.
    pub(super) fn send(&mut self, to: SocketAddr, header: &Header, message: &Message<'_>) {
        let mut octets = Vec::with_capacity(128);
        message.emit(header, &mut octets);
        self.counts.sent += 1;
        self.messages.sent(message);
        self.datagrams.push(Datagram { to, octets, waits: false });
    }

    /// Answers a request that has changed something: the response is known in the node's next
    /// life, too.
    pub(super) fn respond_kept(
        &mut self,
        id: TransactionId,
        seid: Option<u64>,
        message: &Message<'_>,
    ) {
        let octets = self.response(id, seid, message);
        let digest = self.incoming.answer(id, &octets);
        let waits = self.keep_answer(id, digest, &octets);
        self.datagrams.push(Datagram { to: id.from, octets, waits });
    }

    /// Answers a request.
    pub(super) fn respond(&mut self, id: TransactionId, seid: Option<u64>, message: &Message<'_>) {
        let octets = self.response(id, seid, message);
        self.incoming.answer(id, &octets);
        self.datagrams.push(Datagram { to: id.from, octets, waits: false });
    }

    pub(super) fn response(
        &mut self,
        id: TransactionId,
        seid: Option<u64>,
        message: &Message<'_>,
    ) -> Vec<u8> {
        let header = Header { seid, sequence: id.sequence, priority: None };
        let mut octets = Vec::with_capacity(192);
        message.emit(&header, &mut octets);
        self.counts.sent += 1;
        self.messages.sent(message);
        octets
    }

    /// Sends a request to the PFCP port of an address. False if too many wait for responses.
    pub(super) fn ask(
        &mut self,
        now: u64,
        to: IpAddr,
        seid: Option<u64>,
        message: &Message<'_>,
        what: Sent,
    ) -> bool {
        let Some(sequence) = self.outgoing.sequence() else {
            self.counts.no_transaction += 1;
            return false;
        };
        let to = SocketAddr::new(to, crate::PORT);
        let mut octets = Vec::with_capacity(128);
        message.emit(&Header { seid, sequence, priority: None }, &mut octets);
        if let Sent::SessionReport { seid, .. } = what {
            self.route_report(seid, to.ip());
        }
        let mut what = what;
        let mut waits = false;
        if let Sent::SessionReport { seid, kept } = &mut what
            && let Message::SessionReportRequest(request) = message
            && !request.usage.is_empty()
        {
            // One of the node's last life is kept already.
            *kept = kept.or_else(|| self.keep_report(*seid, &octets));
            waits = kept.is_some();
        }
        self.outgoing.note(sequence, to, &octets, what, now);
        self.counts.sent += 1;
        self.messages.sent(message);
        self.datagrams.push(Datagram { to, octets, waits });
        true
    }
}
