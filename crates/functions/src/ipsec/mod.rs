//! IPsec: the Encapsulating Security Payload in tunnel mode (RFC 4303).

pub(crate) mod esp;

functions! {
    esp_decrypt::EspDecrypt,
    esp_encrypt::EspEncrypt,
}
