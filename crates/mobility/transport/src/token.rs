//! What nodes, their controller and its clients share so as to know each other.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;

/// A secret, in octets; at least [`Token::SHORTEST`], at most [`Token::LONGEST`].
#[derive(Clone)]
pub struct Token(Vec<u8>);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("token file {}: {reason}", .file.display())]
    File {
        /// Its path.
        file: PathBuf,
        /// What is wrong.
        reason: io::Error,
    },
    /// What the file holds is too short or too long, or has blanks in it.
    #[error(
        "token file {}: a token has {} to {} visible ASCII characters and stands alone",
        .0.display(), Token::SHORTEST, Token::LONGEST
    )]
    Form(PathBuf),
}

impl Token {
    /// Fewest octets, so that it cannot be guessed.
    pub const SHORTEST: usize = 16;
    /// Most octets; a greeting has room for no more.
    pub const LONGEST: usize = 255;

    /// The token in `text`, blanks around it left out; `None` when it is too short
    /// or too long, or not of visible ASCII characters.
    pub fn new(text: &str) -> Option<Token> {
        let text = text.trim();
        let fits = (Token::SHORTEST..=Token::LONGEST).contains(&text.len());
        let visible = text.bytes().all(|octet| octet.is_ascii_graphic());
        (fits && visible).then(|| Token(text.as_bytes().to_vec()))
    }

    /// Reads a token from a file that holds nothing else.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn load(path: &Path) -> Result<Token, TokenError> {
        let mut text = String::new();
        // Some octets more than fit are enough to see that they do not.
        let most = 2 * Token::LONGEST as u64;
        File::open(path)
            .and_then(|file| file.take(most).read_to_string(&mut text))
            .map_err(|reason| TokenError::File { file: path.to_owned(), reason })?;
        Token::new(&text).ok_or_else(|| TokenError::Form(path.to_owned()))
    }

    /// Whether this is the token; the comparison takes the same time for every guess.
    pub fn is(&self, said: &[u8]) -> bool {
        self.0.ct_eq(said).into()
    }

    /// The octets, for the greeting.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_that_cannot_be_guessed() {
        let token = Token::new("0123456789abcdef\n").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for other in [&b"0123456789abcdeF"[..], b"0123456789abcde", b"0123456789abcdef0", b""] {
            assert!(!token.is(other));
        }
        for wrong in ["", "short", "0123456789 abcdef", "0123456789abcdeü", &"x".repeat(256)] {
            assert!(Token::new(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let said = Token::load(&path).unwrap_err().to_string();
        assert!(said.starts_with(&format!("token file {}: ", path.display())), "{said}");
        std::fs::write(&path, "short").unwrap();
        assert!(matches!(Token::load(&path), Err(TokenError::Form(_))));
        std::fs::write(&path, "long enough? no: blanks").unwrap();
        assert!(matches!(Token::load(&path), Err(TokenError::Form(_))));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(Token::load(&path).unwrap().is(b"0123456789abcdef"));
    }
}
