//! Messages: a header, and sets of records behind it (RFC 7011 section 3).

/// Octets of a message's header.
pub const HEADER: usize = 16;
/// Octets of a set's header.
const SET_HEADER: usize = 4;
/// The version that the header has (RFC 7011 section 3.1).
const VERSION: u16 = 10;
/// A template's length for fields whose records say how long they are (section 7).
pub const VARIABLE: u16 = 65_535;

/// Set IDs of templates (RFC 7011 section 3.3.2).
const TEMPLATE_SET: u16 = 2;
const OPTIONS_TEMPLATE_SET: u16 = 3;

/// An information element in a template: its number in IANA's registry, and its octets.
pub type Field = (u16, u16);

/// How records of one kind are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its number, from 256.
    pub id: u16,
    /// The fields of a record, in their order.
    pub fields: &'static [Field],
    /// Of an options template: so many fields say what the others are about.
    pub scope: u16,
}

/// Octets of one record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(Vec<u8>);

impl Record {
    /// Adds a number or an address in network byte order.
    pub fn put<const N: usize>(&mut self, octets: [u8; N]) -> &mut Record {
        self.0.extend_from_slice(&octets);
        self
    }

    /// Adds text of at most 254 octets, with its length before it (RFC 7011 section 7); longer
    /// text is cut at a character.
    pub fn text(&mut self, text: &str) -> &mut Record {
        let mut end = text.len().min(254);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0.push(end as u8);
        self.0.extend_from_slice(&text.as_bytes()[..end]);
        self
    }
}

/// A message that is being written. It never becomes longer than it may.
#[derive(Debug)]
pub struct Message {
    octets: Vec<u8>,
    most: usize,
    /// Where the set begins that is being written, and its ID.
    set: Option<(usize, u16)>,
    records: u32,
}

impl Message {
    /// An empty message of at most `most` octets.
    pub fn new(most: usize) -> Message {
        let mut octets = Vec::with_capacity(most);
        octets.resize(HEADER, 0);
        Message { octets, most, set: None, records: 0 }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.octets.len() == HEADER
    }

    /// Data records in it, which its sequence number counts.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Adds a data record; false, and nothing is added, where it has no room.
    pub fn data(&mut self, template: &Template, record: &Record) -> bool {
        let added = self.add(template.id, &record.0);
        self.records += u32::from(added);
        added
    }

    /// Adds a template; false, and nothing is added, where it has no room.
    pub fn template(&mut self, template: &Template) -> bool {
        let Template { id, fields, scope } = *template;
        let mut octets = Vec::new();
        octets.extend_from_slice(&id.to_be_bytes());
        octets.extend_from_slice(&(fields.len() as u16).to_be_bytes());
        if scope > 0 {
            octets.extend_from_slice(&scope.to_be_bytes());
        }
        for (element, length) in fields {
            octets.extend_from_slice(&element.to_be_bytes());
            octets.extend_from_slice(&length.to_be_bytes());
        }
        self.add(if scope > 0 { OPTIONS_TEMPLATE_SET } else { TEMPLATE_SET }, &octets)
    }

    fn add(&mut self, set: u16, octets: &[u8]) -> bool {
        let goes_on = self.set.is_some_and(|(_, id)| id == set);
        let header = if goes_on { 0 } else { SET_HEADER };
        if self.octets.len() + header + octets.len() > self.most {
            return false;
        }
        if !goes_on {
            self.set = Some((self.octets.len(), set));
            self.octets.extend_from_slice(&set.to_be_bytes());
            self.octets.extend_from_slice(&[0; 2]);
        }
        self.octets.extend_from_slice(octets);
        if let Some((at, _)) = self.set {
            let length = (self.octets.len() - at) as u16;
            self.octets[at + 2..at + SET_HEADER].copy_from_slice(&length.to_be_bytes());
        }
        true
    }

    /// The whole message: `time` in seconds since 1970, `sequence` the data records before it,
    /// `domain` the observation domain.
    pub fn finish(mut self, time: u32, sequence: u32, domain: u32) -> Vec<u8> {
        let length = self.octets.len() as u16;
        self.octets[..2].copy_from_slice(&VERSION.to_be_bytes());
        self.octets[2..4].copy_from_slice(&length.to_be_bytes());
        for (at, number) in [(4, time), (8, sequence), (12, domain)] {
            self.octets[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: Template = Template { id: 256, fields: &[(2, 4), (371, VARIABLE)], scope: 0 };
    const OTHER: Template = Template { id: 300, fields: &[(149, 4), (165, 8)], scope: 1 };

    fn record(number: u32, text: &str) -> Record {
        let mut record = Record::default();
        record.put(number.to_be_bytes()).text(text);
        record
    }

    #[test]
    fn a_message_is_what_the_standard_says() {
        let mut message = Message::new(200);
        assert!(message.template(&NUMBER) && message.data(&NUMBER, &record(7, "ue")));
        assert!(message.data(&NUMBER, &record(8, "")));
        assert_eq!(message.records(), 2);
        assert_eq!(
            message.finish(1, 2, 3),
            [
                &[0, 10, 0, 48, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3][..],
                &[0, 2, 0, 16, 1, 0, 0, 2, 0, 2, 0, 4, 1, 115, 255, 255],
                &[1, 0, 0, 16, 0, 0, 0, 7, 2, b'u', b'e', 0, 0, 0, 8, 0],
            ]
            .concat()
        );
        let mut message = Message::new(200);
        assert!(message.template(&OTHER));
        let octets = message.finish(0, 0, 0);
        assert_eq!(octets[HEADER..], [0, 3, 0, 18, 1, 44, 0, 2, 0, 1, 0, 149, 0, 4, 0, 165, 0, 8]);
    }

    #[test]
    fn text_is_cut_at_a_character() {
        let mut record = Record::default();
        record.text(&"ä".repeat(200));
        assert_eq!((record.0[0], record.0.len()), (254, 255));
        assert!(std::str::from_utf8(&record.0[1..]).is_ok());
    }

    proptest::proptest! {
        /// Whatever is added, lengths add up and no message is longer than it may be.
        #[test]
        fn sets_add_up(
            most in 16_usize..600,
            added in proptest::collection::vec((0..3_u8, 0..300_usize), 0..60),
        ) {
            let mut message = Message::new(most);
            let mut records = 0;
            for (what, length) in added {
                if what < 2 {
                    message.template(if what == 0 { &NUMBER } else { &OTHER });
                } else if message.data(&NUMBER, &record(1, &"x".repeat(length))) {
                    records += 1;
                }
            }
            proptest::prop_assert_eq!(message.records(), records);
            let octets = message.finish(0, 0, 0);
            let number = |at: usize| usize::from(u16::from_be_bytes([octets[at], octets[at + 1]]));
            proptest::prop_assert!(octets.len() <= most && number(2) == octets.len());
            let mut at = HEADER;
            while at < octets.len() {
                proptest::prop_assert!(number(at + 2) > SET_HEADER);
                at += number(at + 2);
            }
            proptest::prop_assert_eq!(at, octets.len());
        }
    }
}
