//! AES-GCM by a cryptographic device: published vectors, and what is refused.

use crate::common::eal;
use weft_dpdk::crypto::{Device, Direction, Sessions};

const DEVICE: &str = "crypto_aesni_gcm0";
const KEY: &str = "feffe9928665731c6d6a8f9467308308";
const NONCE: &str = "cafebabefacedbaddecaf888";
const ASSOCIATED: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
const PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                     1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";

/// Test cases 4 and 16 of McGrew and Viega, *The Galois/Counter Mode of Operation*,
/// appendix B: words of the key, ciphertext, tag.
const VECTORS: [(usize, &str, &str); 2] = [
    (
        1,
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        "5bc94fbc3221a5db94fae95ae7121a47",
    ),
    (
        2,
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
         8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        "76fc6ece0f4e1768cddf8853bb2d551b",
    ),
];

fn octets(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(octet).collect()
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    octets(text).try_into().expect("as many octets")
}

fn sessions(count: u32) -> Sessions {
    let device = Device::open(eal(), DEVICE).expect("the device is there");
    device.sessions(count).expect("there is memory for sessions")
}

#[test]
fn published_vectors_both_ways() {
    let sessions = sessions(2);
    for (times, cipher, tag) in VECTORS {
        let key = octets(&KEY.repeat(times));
        let associated = octets(ASSOCIATED);
        let seal = sessions.aes_gcm(&key, 20, Direction::Seal).expect("a session");
        let (mut data, mut found) = (octets(PLAIN), [0; 16]);
        assert!(seal.seal(&array(NONCE), &associated, &mut data, &mut found));
        assert_eq!((&data, &found[..]), (&octets(cipher), &octets(tag)[..]));

        let open = sessions.aes_gcm(&key, 20, Direction::Open).expect("a session");
        assert!(open.open(&array(NONCE), &associated, &mut data, &array(tag)));
        assert_eq!(data, octets(PLAIN));
    }
    assert_eq!(sessions.available(), 2, "sessions come back");
}

/// Test cases of draft-mcgrew-gcm-test-01 §4 for RFC 4106: key, salt and vector,
/// associated data, cleartext with its trailer, ciphertext with its check value.
const ESP_VECTORS: [[&str; 5]; 5] = [
    [
        "4c80cdefbb5d10da906ac73c3613a634",
        "2e443b684956ed7e3b244cfe",
        "000043218765432100000000",
        "45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000\
         00000000045f736970045f756470037369700963796265726369747902646b00\
         0021000101020201",
        "fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34\
         cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce\
         61bc17d768fd9732459018148f6cbe722fd04796562dfdb4",
    ],
    [
        "feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "0000a5f80000000a",
        "4500003e698f000080114dccc0a80102c0a801010a980035002a2343b2d00100\
         0001000000000000037369700963796265726369747902646b00000100010001",
        "deb22cd9b07c72c16e3a65beeb8df304a5a5897d33ae530f1ba76d5d114d2a5c\
         3de81827c10e9a4f51330d0eec416642cfbb85a5b47e48a4ec3b9ba95d918bd1\
         83b70d3aa8bc6ee4c309e9d85a41ad4a",
    ],
    [
        "abbccddef00112233445566778899aababbccddef00112233445566778899aab",
        "112233440102030405060708",
        "4a2cbfe300000002",
        "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee000000000\
         7002400020bf0000020405b40101040201020201",
        "ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763\
         748a637985771d347f0545659f14e99def842d8eb335f4eecfdbf831824b4c49\
         15956c96",
    ],
    [
        "7d773d00c144c525ac619d18c84a3f47",
        "d966426743457e9182443bc6",
        "335467aeffffffff",
        "01020201",
        "437f866bcb3f699fe9b0822bac961c4504bef270",
    ],
    [
        "6c6567616c697a656d6172696a75616e61616e64646f69746265666f72656961",
        "7475726e333021696765746d",
        "796b6963ffffffffffffffff",
        "45000030da3a00008001df3bc0a80005c0a800010800c6cd0200070061626364\
         65666768696a6b6c6d6e6f707172737401020201",
        "f97ab2aa356d8edce17644ac8c78e25dd24dedbb29ebf1b64a274b39b49c3a86\
         4cd3d78ca4ae68a32b42458fb57dbe821dcc63b9d0937ba2945f669368661a32\
         9fb4c053",
    ],
];

#[test]
fn vectors_of_esp_both_ways() {
    let sessions = sessions(2);
    for [key, nonce, associated, plain, cipher] in ESP_VECTORS {
        let associated = octets(associated);
        let length = associated.len() as u16;
        let session = |direction| sessions.aes_gcm(&octets(key), length, direction).expect("room");
        let (seal, open) = (session(Direction::Seal), session(Direction::Open));
        let (mut data, mut tag) = (octets(plain), [0; 16]);
        assert!(seal.seal(&array(nonce), &associated, &mut data, &mut tag));
        assert_eq!([&data[..], &tag].concat(), octets(cipher));
        assert!(open.open(&array(nonce), &associated, &mut data, &tag));
        assert_eq!(data, octets(plain));
    }
}

#[test]
fn whatever_differs_in_an_octet_is_not_opened() {
    let sessions = sessions(1);
    let (_, cipher, tag) = VECTORS[0];
    let open = sessions.aes_gcm(&octets(KEY), 20, Direction::Open).expect("a session");
    let opens = |nonce: [u8; 12], associated: &[u8], data: &[u8], tag: [u8; 16]| {
        open.open(&nonce, associated, &mut data.to_vec(), &tag)
    };
    let (nonce, associated, data, tag) =
        (array(NONCE), octets(ASSOCIATED), octets(cipher), array(tag));
    assert!(opens(nonce, &associated, &data, tag));
    for place in 0..12 {
        let mut other = nonce;
        other[place] ^= 1;
        assert!(!opens(other, &associated, &data, tag));
    }
    for place in 0..16 {
        let mut other = tag;
        other[place] ^= 0x80;
        assert!(!opens(nonce, &associated, &data, other));
    }
    let mut other = (associated.clone(), data.clone());
    other.0[7] ^= 1;
    other.1[59] ^= 1;
    assert!(!opens(nonce, &other.0, &data, tag));
    assert!(!opens(nonce, &associated, &other.1, tag));
    assert!(!opens(nonce, &associated, &data[..59], tag));
    assert!(!opens(nonce, &associated[..19], &data, tag), "fewer associated octets");
}

#[test]
fn sessions_are_bounded_and_directed() {
    let sessions = sessions(1);
    assert!(sessions.aes_gcm(&[7; 15], 8, Direction::Seal).is_none(), "no length of a key");
    let session = sessions.aes_gcm(&[7; 16], 8, Direction::Seal).expect("a session");
    assert!(sessions.aes_gcm(&[7; 16], 8, Direction::Open).is_none(), "one is in use");
    assert!(!session.open(&[0; 12], &[0; 8], &mut [0; 4], &[0; 16]), "it seals only");
    assert!(!format!("{session:?}").contains('7'), "no key is shown");
    drop(session);
    assert!(sessions.aes_gcm(&[7; 16], 8, Direction::Open).is_some());
}

#[test]
fn devices_that_cannot_do_it_are_refused() {
    for (device, part) in [
        ("net_null7", "crypto_"),
        ("crypto_nothing0", "cannot make"),
        ("crypto_null0", "no AES-GCM"),
        ("crypto_openssl0", "no AES-GCM in the calling thread"),
    ] {
        let error = Device::open(eal(), device).expect_err(device).to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(Device::open(eal(), DEVICE).ok(), Device::open(eal(), DEVICE).ok());
}

/// Sessions of one key work alike in threads that DPDK has never seen.
#[test]
fn every_thread_may_seal() {
    let sessions = sessions(4);
    let seal = |sessions: Sessions| {
        let session = sessions.aes_gcm(&[9; 32], 12, Direction::Seal).expect("a session");
        let (mut data, mut tag) = ([1; 100], [0; 16]);
        assert!(session.seal(&[2; 12], &[3; 12], &mut data, &mut tag));
        (data, tag)
    };
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let sessions = sessions.clone();
            std::thread::spawn(move || seal(sessions))
        })
        .collect();
    let found: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
    assert!(found.iter().all(|one| *one == found[0]));
}
