//! Versions of the formats.

use schemars::JsonSchema;
use serde::Deserialize;

/// Versions of these formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ApiVersion {
    /// The one there is.
    #[serde(rename = "weft/v1")]
    V1,
}
