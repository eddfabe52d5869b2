//! IPsec: associations, packets that are sealed before they are opened, and the
//! cryptographic device without a function around it.

use serde_json::{Value, json};
use weft_dpdk::crypto::{Device, Direction, NONCE, Session, TAG};
use weft_wire::esp::{HEADER_LENGTH, Spi};
use weft_wire::{Protocol, ethernet, ipv4};

use weft_rig::Failure;
use weft_rig::Rig;
use weft_rig::trials::alone::{BURST, Finish, Subject};

/// The one that functions take without being told.
pub const DEVICE: &str = "crypto_aesni_gcm0";
/// Octets of the initialization vector in each packet (RFC 4106 §3.1).
const IV: usize = 8;
/// Octets in front of the ciphertext.
pub const FRONT: usize = HEADER_LENGTH + IV;
/// Where ESP begins in a frame.
const ESP: usize = ethernet::HEADER_LENGTH + ipv4::MIN_HEADER_LENGTH;
/// Octets of pad length and next header.
const TRAILER: usize = 2;
/// Octets of a key, and of the salt behind it.
const KEY: usize = 16;
const SALT: usize = 4;
/// Those of packets that are opened.
const SECRET: u32 = 0x5ec2_e700;

/// Octets of ciphertext with a packet of so many in it (RFC 4303 §2.4).
fn text(length: usize) -> usize {
    (length + TRAILER).next_multiple_of(4)
}

/// Octets behind the IP header around a packet of so many.
pub fn payload(length: usize) -> usize {
    FRONT + text(length) + TAG
}

/// Index of a user's association.
pub fn spi(user: u32) -> Spi {
    Spi(Spi::FIRST.0 + user)
}

/// Key and salt that come of a number.
fn key(number: u32) -> [u8; KEY + SALT] {
    let mut key = [0x5a; KEY + SALT];
    key[..4].copy_from_slice(&number.to_be_bytes());
    key
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// What `esp-encrypt` is told of a user.
pub fn sealing(user: u32) -> Value {
    json!({
        "spi": spi(user).0, "key": hexadecimal(&key(user)),
        "local": "192.0.2.1", "peer": "192.0.2.2",
    })
}

/// What `esp-decrypt` is told of a user. All have one key, so that what seals for all of
/// them takes no more room in the cache than one association.
pub fn opening(user: u32) -> Value {
    json!({ "spi": spi(user).0, "key": hexadecimal(&key(SECRET)), "peer": "192.0.2.1" })
}

fn session(rig: &Rig, direction: Direction) -> Result<Session, Failure> {
    let sessions = Device::open(rig.eal, DEVICE)?.sessions(1)?;
    let session = sessions.aes_gcm(&key(SECRET)[..KEY], NONCE as u16, direction);
    Ok(session.ok_or("the cryptographic device has no room for a key")?)
}

/// Seals the packet behind the header of ESP, with the next sequence number of its flow,
/// as the peer of [`opening`] would. The users of the flows are given.
///
/// # Errors
/// When there is no cryptographic device.
pub fn seal(rig: &Rig, users: Vec<u32>) -> Result<Finish, Failure> {
    let session = session(rig, Direction::Seal)?;
    let mut sent = vec![0_u64; users.len()];
    let mut iv = 0_u64;
    Ok(Box::new(move |flow, frame| {
        (sent[flow], iv) = (sent[flow] + 1, iv + 1);
        let (sequence, vector) = (sent[flow].to_be_bytes(), iv.to_be_bytes());
        let Some((front, text, tag)) = parts(frame) else { return };
        front[4..HEADER_LENGTH].copy_from_slice(&sequence[4..]);
        front[HEADER_LENGTH..].copy_from_slice(&vector);
        let mut nonce = [0; NONCE];
        nonce[..SALT].copy_from_slice(&key(SECRET)[KEY..]);
        nonce[SALT..].copy_from_slice(&vector);
        let mut associated = [0; NONCE];
        associated[..4].copy_from_slice(&spi(users[flow]).0.to_be_bytes());
        associated[4..].copy_from_slice(&sequence);
        session.seal(&nonce, &associated, text, tag);
    }))
}

/// Header and initialization vector, the text with its trailer written, and the place of
/// the tag; none where the frame is too short.
fn parts(frame: &mut [u8]) -> Option<(&mut [u8], &mut [u8], &mut [u8; TAG])> {
    let (front, rest) = frame.get_mut(ESP..)?.split_at_mut_checked(FRONT)?;
    let (text, tag) = rest.split_last_chunk_mut::<TAG>()?;
    let inside = text.first_chunk::<4>()?;
    let length = usize::from(u16::from_be_bytes([inside[2], inside[3]]));
    let (padding, trailer) = text.get_mut(length..)?.split_last_chunk_mut::<TRAILER>()?;
    padding.iter_mut().zip(1..).for_each(|(octet, number)| *octet = number);
    *trailer = [padding.len() as u8, Protocol::IPV4.0];
    Some((front, text, tag))
}

/// The device alone, with one key: it seals or opens the text of a burst.
pub struct DeviceAlone {
    seal: Session,
    open: Option<Session>,
    buffers: Vec<(Vec<u8>, [u8; TAG])>,
    nonces: [[u8; NONCE]; BURST],
    used: u64,
    failed: bool,
}

impl DeviceAlone {
    /// For packets of so many octets inside.
    ///
    /// # Errors
    /// When there is no cryptographic device.
    pub fn new(rig: &Rig, direction: Direction, length: usize) -> Result<DeviceAlone, Failure> {
        DeviceAlone::of_octets(rig, direction, text(length))
    }

    /// For so many octets.
    ///
    /// # Errors
    /// When there is no cryptographic device.
    pub fn of_octets(
        rig: &Rig,
        direction: Direction,
        octets: usize,
    ) -> Result<DeviceAlone, Failure> {
        let opens = direction == Direction::Open;
        let open = opens.then(|| session(rig, Direction::Open)).transpose()?;
        Ok(DeviceAlone {
            seal: session(rig, Direction::Seal)?,
            open,
            buffers: vec![(vec![7; octets], [0; TAG]); BURST],
            nonces: [[0; NONCE]; BURST],
            used: 0,
            failed: false,
        })
    }

    fn seal(&mut self) {
        for ((text, tag), nonce) in self.buffers.iter_mut().zip(&self.nonces) {
            self.failed |= !self.seal.seal(nonce, nonce, text, tag);
        }
    }
}

impl Subject for DeviceAlone {
    fn prepare(&mut self) {
        for nonce in &mut self.nonces {
            self.used += 1;
            nonce[SALT..].copy_from_slice(&self.used.to_be_bytes());
        }
        if self.open.is_some() {
            self.seal();
        }
    }

    fn work(&mut self) {
        let Some(open) = &self.open else { return self.seal() };
        for ((text, tag), nonce) in self.buffers.iter_mut().zip(&self.nonces) {
            self.failed |= !open.open(nonce, nonce, text, tag);
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.prepare();
        self.work();
        match self.failed {
            true => Err("the cryptographic device refuses a packet".into()),
            false => Ok(()),
        }
    }

    fn takes_long_to_prepare(&self) -> bool {
        self.open.is_some()
    }
}
