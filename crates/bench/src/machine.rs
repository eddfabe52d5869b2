//! The machine that something was measured on, as far as it can be seen from
//! within.

use std::fs;
use std::path::Path;
use std::thread;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_dpdk::Eal;

/// Where something was measured. What cannot be seen is left empty or out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Machine {
    /// The commit of Weft; `-dirty` behind it when files had been changed.
    pub commit: String,
    /// How Weft was built: `release`, or `debug`, whose figures mean nothing.
    pub build: String,
    /// The processor's name.
    pub cpu: String,
    /// The cores that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The version of DPDK.
    pub dpdk: String,
    /// The pages under packets: `huge pages` or `4 KB pages`.
    pub pages: String,
    /// The governor of the clock rate, where one is seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether the machine is a guest of a hypervisor, which may take its cores.
    pub virtual_machine: bool,
}

impl Machine {
    /// This machine, with an environment running on it.
    pub fn observe(eal: &Eal) -> Machine {
        Machine {
            dpdk: eal.version(),
            pages: if eal.has_huge_pages() { "huge pages" } else { "4 KB pages" }.to_owned(),
            ..Machine::without_packets()
        }
    }

    /// This machine, without an environment: neither DPDK nor pages are known.
    pub fn without_packets() -> Machine {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = processors.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let flags = field("flags").unwrap_or_default();
        Machine {
            commit: env!("WEFT_COMMIT").to_owned(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            cpu: field("model name").unwrap_or_default(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: line_of("/proc/sys/kernel/osrelease").unwrap_or_default(),
            dpdk: String::new(),
            pages: String::new(),
            governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtual_machine: flags.split_whitespace().any(|flag| flag == "hypervisor"),
        }
    }

    /// What it is, as names and values for people, the empty ones left out.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let cores = match self.cores {
            0 => String::new(),
            1 => "1 core".to_owned(),
            cores => format!("{cores} cores"),
        };
        let guest = if self.virtual_machine { "yes" } else { "no" };
        let mut facts = vec![
            ("Processor", self.cpu.clone()),
            ("Cores", cores),
            ("Virtual machine", guest.to_owned()),
            ("Clock governor", self.governor.clone().unwrap_or_default()),
            ("Kernel", self.kernel.clone()),
            ("DPDK", self.dpdk.clone()),
            ("Packet memory", self.pages.clone()),
            ("Weft commit", self.commit.clone()),
            ("Build", self.build.clone()),
        ];
        facts.retain(|(_, value)| !value.is_empty());
        facts
    }
}

fn line_of(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_a_core() {
        let machine = Machine::without_packets();
        assert!(machine.cores >= 1);
        assert!(!machine.kernel.is_empty());
        assert!(!machine.commit.is_empty());
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let facts = Machine::default().facts();
        assert_eq!(facts, [("Virtual machine", "no".to_owned())]);
    }
}
