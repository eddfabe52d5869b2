//! IPsec: the Encapsulating Security Payload in tunnel mode (RFC 4303).

pub(crate) mod esp;

pub use esp::used_keys::remember_keys_in;

functions! {
    esp_decrypt::EspDecrypt,
    esp_encrypt::EspEncrypt,
}
