//! `dpdk-test-crypto-perf`: DPDK's own measure of a cryptographic device, in operations of
//! AES-GCM with keys of 128 bits as ESP has them (RFC 4106).

use std::process::{Command, Stdio};

use crate::{Failure, MEGABYTES, Rig};

/// The program.
pub const PROGRAM: &str = "dpdk-test-crypto-perf";
/// Said where it is not there.
pub const MISSING: &str =
    "dpdk-test-crypto-perf is not installed (apt install dpdk-dev): not compared.";

/// What is done with the octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// They are encrypted.
    Encrypt,
    /// They are decrypted.
    Decrypt,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Encrypt => "encrypt",
            Operation::Decrypt => "decrypt",
        }
    }
}

/// Cycles of one operation on so many octets, by a device such as `crypto_aesni_gcm0`, of so
/// many operations.
///
/// # Errors
/// When the program is not there, does not know the device or says nothing.
pub fn cycles(
    rig: &Rig,
    device: &str,
    operation: Operation,
    octets: usize,
    operations: u64,
) -> Result<f64, Failure> {
    let program = rig.program(PROGRAM).ok_or(MISSING)?;
    let driver = device.trim_end_matches(|c: char| c.is_ascii_digit());
    let idle = rig.cores.traffic.unwrap_or(rig.cores.system);
    let mut command = Command::new(program);
    command.args(["--no-pci", "--no-telemetry", "-m"]).arg(MEGABYTES.to_string());
    match rig.eal.has_huge_pages() {
        true => command.args(["--in-memory"]),
        false => command.args(["--no-huge", "--no-shconf"]),
    };
    command
        .args(["--lcores", &format!("0@{idle},1@{}", rig.cores.system), "--vdev", device, "--"])
        .args(["--ptest", "throughput", "--devtype", driver, "--optype", "aead"])
        .args(["--aead-algo", "aes-gcm", "--aead-op", operation.name(), "--aead-key-sz", "16"])
        .args(["--aead-iv-sz", "12", "--aead-aad-sz", "12", "--digest-sz", "16"])
        .args(["--buffer-sz", &octets.to_string(), "--burst-sz", "32"])
        .args(["--total-ops", &operations.to_string(), "--csv-friendly", "--silent"]);
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    found(&text).ok_or_else(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        let last = error.lines().chain(text.lines()).rfind(|line| !line.is_empty());
        format!("{PROGRAM} measured nothing: {}", last.unwrap_or("it said nothing")).into()
    })
}

/// Cycles of an operation, in the table that it writes for other programs.
fn found(text: &str) -> Option<f64> {
    let mut lines = text.lines();
    let head = lines.find(|line| line.starts_with("#lcore id"))?;
    let column = head.split(',').position(|name| name.trim() == "Cycles/Buf")?;
    let row = lines.find(|line| !line.trim().is_empty())?;
    row.split(',').nth(column)?.trim().parse().ok().filter(|cycles: &f64| *cycles > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_read_from_its_table() {
        let text = "Allocated pool\n#lcore id,Buffer Size(B),Burst Size,Enqueued,Dequeued,\
                    Failed Enq,Failed Deq,Ops(Millions),Throughput(Gbps),Cycles/Buf\n\n\
                    1,512,32,300000,300000,0,0,2.890,11.837,847.784\n";
        assert_eq!(found(text), Some(847.784));
        assert_eq!(found("USER1: device not found\n"), None);
        assert_eq!(found("#lcore id,Cycles/Buf\n\n1,-\n"), None);
    }
}
