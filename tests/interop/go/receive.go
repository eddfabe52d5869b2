package main

import (
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
)

// take does what a datagram asks for and tells of it.
func (c *controlPlane) take(datagram []byte) {
	m, err := message.Parse(datagram)
	if err != nil {
		failure("datagram", err)
		return
	}
	header, err := message.ParseHeader(datagram)
	if err != nil {
		failure("header", err)
		return
	}
	elements, err := ie.ParseMultiIEs(header.Payload)
	if err != nil {
		failure(m.MessageTypeName(), err)
		return
	}
	sequence, s := m.Sequence(), c.bySEID[m.SEID()]
	switch m.MessageType() {
	case message.MsgTypeHeartbeatRequest:
		c.answer(message.NewHeartbeatResponse(sequence, ie.NewRecoveryTimeStamp(c.started)))
		c.told(sequence, describe(event{"event": "heartbeat"}, elements))
	case message.MsgTypeAssociationSetupRequest:
		c.answer(message.NewAssociationSetupResponse(sequence, c.nodeID(""),
			ie.NewCause(ie.CauseRequestAccepted), ie.NewRecoveryTimeStamp(c.started)))
		c.told(sequence, describe(event{"event": "setup"}, elements))
	case message.MsgTypeAssociationUpdateRequest:
		c.answer(message.NewAssociationUpdateResponse(sequence, c.nodeID(""),
			ie.NewCause(ie.CauseRequestAccepted)))
		c.told(sequence, describe(event{"event": "update"}, elements))
	case message.MsgTypeAssociationReleaseRequest:
		c.answer(message.NewAssociationReleaseResponse(sequence, c.nodeID(""),
			ie.NewCause(ie.CauseRequestAccepted)))
		c.told(sequence, describe(event{"event": "release"}, elements))
	case message.MsgTypeNodeReportRequest:
		c.answer(message.NewNodeReportResponse(sequence, c.nodeID(""),
			ie.NewCause(ie.CauseRequestAccepted), nil))
		c.told(sequence, describe(event{"event": "node-report"}, elements))
	case message.MsgTypeSessionSetDeletionRequest:
		c.answer(message.NewSessionSetDeletionResponse(sequence, c.nodeID(""),
			ie.NewCause(ie.CauseRequestAccepted), nil))
		c.told(sequence, describe(event{"event": "set-deletion"}, elements))
	case message.MsgTypeSessionReportRequest:
		c.report(sequence, s, elements)
	default:
		c.answerOf(m, elements)
	}
}

// report answers a report of a session (§7.5.8).
func (c *controlPlane) report(sequence uint32, s *session, elements []*ie.IE) {
	e := event{"event": "report"}
	if s == nil {
		c.answer(message.NewSessionReportResponse(0, 0, 0, sequence, 0,
			ie.NewCause(ie.CauseSessionContextNotFound)))
		e["unknown"] = true
	} else {
		c.answer(message.NewSessionReportResponse(0, 0, s.remote, sequence, 0,
			ie.NewCause(ie.CauseRequestAccepted)))
		name(e, s)
	}
	c.told(sequence, describe(e, elements))
}

// told tells of a request, once however often it comes.
func (c *controlPlane) told(sequence uint32, e event) {
	if c.answered[sequence] {
		e = event{"event": "repeated", "what": e["event"]}
	}
	c.answered[sequence] = true
	e["sequence"] = sequence
	tell(e)
}

func (c *controlPlane) answer(m message.Message) {
	bytes, err := encode(m)
	if err != nil {
		failure("answer", err)
		return
	}
	c.send(bytes)
}

// answerOf tells of the answer to a request of ours, or of one to nothing.
func (c *controlPlane) answerOf(m message.Message, elements []*ie.IE) {
	e := event{"event": "answer", "type": m.MessageType(), "sequence": m.Sequence()}
	r := c.pending[m.Sequence()]
	if r == nil {
		e["event"] = "unasked"
		tell(describe(e, elements))
		return
	}
	delete(c.pending, m.Sequence())
	e["to"], e["attempts"] = r.do, r.attempts
	e["ms"] = float64(time.Since(r.first).Microseconds()) / 1000
	e["headerSeid"] = m.SEID()
	name(e, r.session)
	describe(e, elements)
	if seid, is := e["seid"].(uint64); is && r.session != nil {
		r.session.remote = seid
	}
	tell(e)
}
