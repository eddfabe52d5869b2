//! One key at two associations.

use super::*;

/// Two associations with one key would use each nonce twice (RFC 4106 §9).
#[test]
fn one_key_is_refused_at_two_associations() {
    for name in ["esp-encrypt", "esp-decrypt"] {
        let kind = kind(name).expect("it is there");
        let tags = TagTable::default();
        let setup = Setup {
            instance: "esp",
            tags: &tags,
            contexts: 1,
            worker: 0,
            tsc_hz: 1,
            trial: true,
            events: None,
        };
        let trial = kind.make(&json!({}), &setup, SlotShift::default()).expect("valid");
        let check = |spi: u32, key: &str| {
            let ends = match name {
                "esp-encrypt" => json!({ "local": "192.0.2.1", "peer": "192.0.2.2" }),
                _ => json!({}),
            };
            let settings = kind.settings(&with(json!({ "spi": spi, "key": key }), &ends));
            trial.check(&settings.expect("settings"), 1)
        };
        check(4096, KEY).expect("the first");
        check(4096, KEY).expect("the same one again");
        let error = check(8192, KEY).expect_err("the same key");
        let message = "the security associations 0x1000 and 0x2000 have one key";
        assert_eq!((error.path.as_str(), error.message.as_str()), ("key", message));
        check(8192, LONG_KEY).expect("another key");
    }
}

/// What the check cannot see, such as two users with one SPI at different peers.
#[test]
fn an_association_with_a_key_in_use_is_not_set_up() {
    let mut encrypt = sender(json!({}), &json!({}));
    let other = json!({ "spi": 4096, "key": KEY, "local": "192.0.2.1", "peer": "192.0.2.9" });
    encrypt.configure(1, other.clone(), 0, 1).expect("valid in itself");
    let send = |rig: &mut Rig, user: u32| {
        rig.send_as(&Spec::udp(b"payload"), |one| (one.user, one.bearer) = (user, user)).dropped
    };
    assert_eq!(send(&mut encrypt, 0), None);
    assert_eq!(send(&mut encrypt, 1), Some("esp_no_association"));
    // Once the first has gone, the key may be used again: vectors go on above.
    encrypt.instance.release(0);
    encrypt.configure(1, other, 0, 1).expect("valid");
    assert_eq!(send(&mut encrypt, 1), None);
}
