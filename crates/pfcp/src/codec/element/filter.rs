//! Filters as texts: SDF Filter, PFD Contents.

use super::Text;
use crate::codec::cursor::{Cursor, put_counted, put_u24};
use crate::codec::{Error, Value};

/// A filter of service data flows (§8.2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SdfFilter<'a> {
    /// An `IPFilterRule` (RFC 6733 §4.3.1), as TS 29.212 §5.4.2 restricts it.
    pub description: Option<Text<'a>>,
    /// ToS or Traffic Class: value and mask (TS 29.212 §5.3.15).
    pub traffic_class: Option<(u8, u8)>,
    /// IPsec security parameter index.
    pub spi: Option<u32>,
    /// IPv6 flow label, 20 bits.
    pub flow_label: Option<u32>,
    /// Number of a filter that holds in both directions.
    pub id: Option<u32>,
}

impl<'a> Value<'a> for SdfFilter<'a> {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        cursor.u8()?;
        if flags & 0x1f == 0 {
            return Err(cursor.wrong());
        }
        Ok(Self {
            description: cursor.when(flags & 0x01 != 0, |cursor| cursor.counted().map(Text))?,
            traffic_class: cursor
                .when(flags & 0x02 != 0, |cursor| Ok((cursor.u8()?, cursor.u8()?)))?,
            spi: cursor.when(flags & 0x04 != 0, Cursor::u32)?,
            flow_label: cursor.when(flags & 0x08 != 0, |cursor| Ok(cursor.u24()? & 0x000f_ffff))?,
            id: cursor.when(flags & 0x10 != 0, Cursor::u32)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.description.is_some())
            | u8::from(self.traffic_class.is_some()) << 1
            | u8::from(self.spi.is_some()) << 2
            | u8::from(self.flow_label.is_some()) << 3
            | u8::from(self.id.is_some()) << 4;
        out.extend_from_slice(&[flags, 0]);
        if let Some(text) = self.description {
            put_counted(out, text.0);
        }
        if let Some((value, mask)) = self.traffic_class {
            out.extend_from_slice(&[value, mask]);
        }
        if let Some(spi) = self.spi {
            out.extend_from_slice(&spi.to_be_bytes());
        }
        if let Some(label) = self.flow_label {
            put_u24(out, label & 0x000f_ffff);
        }
        if let Some(id) = self.id {
            out.extend_from_slice(&id.to_be_bytes());
        }
    }
}

/// How packets of an application are recognised (§8.2.39).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PfdContents<'a> {
    /// Flow descriptions, as in [`SdfFilter`].
    pub descriptions: Vec<Text<'a>>,
    /// URLs.
    pub urls: Vec<Text<'a>>,
    /// Domain names, each with the protocol in which it is looked for.
    pub domains: Vec<(Text<'a>, Option<Text<'a>>)>,
    /// A text that only the two functions understand.
    pub custom: Option<Text<'a>>,
}

/// The texts of a list: each behind its length.
fn list<'a>(element: u16, octets: &'a [u8]) -> Result<Vec<Text<'a>>, Error> {
    let mut cursor = Cursor::new(element, octets);
    let mut texts = Vec::new();
    while !cursor.is_empty() {
        texts.push(Text(cursor.counted()?));
    }
    Ok(texts)
}

impl<'a> Value<'a> for PfdContents<'a> {
    fn parse(element: u16, octets: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(element, octets);
        let flags = cursor.u8()?;
        cursor.u8()?;
        let mut field = |bit: u8| cursor.when(flags & 1 << bit != 0, |cursor| cursor.counted());
        let (description, url, domain, custom, protocol) =
            (field(0)?, field(1)?, field(2)?, field(3)?, field(4)?);
        let (more_descriptions, more_urls, more_domains) = (field(5)?, field(6)?, field(7)?);
        let mut value = Self {
            descriptions: description.map(Text).into_iter().collect(),
            urls: url.map(Text).into_iter().collect(),
            domains: domain.map(|name| (Text(name), protocol.map(Text))).into_iter().collect(),
            custom: custom.map(Text),
        };
        value.descriptions.extend(list(element, more_descriptions.unwrap_or_default())?);
        value.urls.extend(list(element, more_urls.unwrap_or_default())?);
        // Names and protocols take turns.
        let mut pairs = list(element, more_domains.unwrap_or_default())?.into_iter();
        while let Some(name) = pairs.next() {
            value.domains.push((name, pairs.next().filter(|text| !text.0.is_empty())));
        }
        Ok(value)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let domain = self.domains.first();
        let protocol = domain.and_then(|(_, protocol)| *protocol);
        let (descriptions, urls, domains) =
            (self.descriptions.len(), self.urls.len(), self.domains.len());
        let flags = u8::from(descriptions > 0)
            | u8::from(urls > 0) << 1
            | u8::from(domains > 0) << 2
            | u8::from(self.custom.is_some()) << 3
            | u8::from(protocol.is_some()) << 4
            | u8::from(descriptions > 1) << 5
            | u8::from(urls > 1) << 6
            | u8::from(domains > 1) << 7;
        out.extend_from_slice(&[flags, 0]);
        let first =
            [self.descriptions.first().copied(), self.urls.first().copied(), domain.map(|d| d.0)];
        for text in first.into_iter().chain([self.custom, protocol]).flatten() {
            put_counted(out, text.0);
        }
        put_list(self.descriptions.iter().skip(1).copied(), out);
        put_list(self.urls.iter().skip(1).copied(), out);
        let pairs = self.domains.iter().skip(1);
        put_list(pairs.flat_map(|(name, protocol)| [*name, protocol.unwrap_or_default()]), out);
    }
}

/// A list behind its length, if there is anything in it.
fn put_list<'a>(texts: impl Iterator<Item = Text<'a>>, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    for text in texts {
        put_counted(out, text.0);
    }
    if out.len() == at + 2 {
        out.truncate(at);
        return;
    }
    let length = u16::try_from(out.len() - at - 2).unwrap_or(u16::MAX);
    out[at..at + 2].copy_from_slice(&length.to_be_bytes());
}
