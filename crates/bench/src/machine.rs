//! The machine that something was measured on, as far as it can be seen from
//! within.

use std::fs;
use std::path::Path;
use std::thread;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_dpdk::Eal;

const HUGE_PAGES: &str = "huge pages";

/// Where something was measured. What cannot be seen is left empty or out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Machine {
    /// The last commit of Weft that changed what is measured; `-dirty` behind it when files
    /// had been changed.
    pub commit: String,
    /// How Weft was built: `release`, or `debug`, whose figures mean nothing.
    pub build: String,
    /// What machines have in common whose figures may stand in one column: processor, cores and
    /// pages, as the name of a folder.
    pub kind: String,
    /// The processor's name.
    pub cpu: String,
    /// Its generation, by which it is told from others of the same name.
    pub generation: String,
    /// The clock of the time-stamp counter, which is what cycles are of.
    pub clock: String,
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
        let machine = Machine {
            clock: format!("{:.2} GHz", weft_dpdk::tsc::hz() as f64 / 1e9),
            dpdk: eal.version(),
            pages: if eal.has_huge_pages() { HUGE_PAGES } else { "4 KB pages" }.to_owned(),
            ..Machine::without_packets()
        };
        Machine { kind: machine.kind(), ..machine }
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
            generation: field("cpu family")
                .zip(field("model\t"))
                .map_or(String::new(), |(family, model)| format!("family {family}, model {model}")),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: line_of("/proc/sys/kernel/osrelease").unwrap_or_default(),
            kind: String::new(),
            clock: String::new(),
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
            ("Generation", self.generation.clone()),
            ("Time-stamp counter", self.clock.clone()),
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

    /// See the field of that name: `amd-epyc-family-25-model-1-2-cores`.
    fn kind(&self) -> String {
        // What makers write around the name of a processor, and its rate, which others say.
        let name = self.cpu.split('@').next().unwrap_or_default();
        let name = ["(R)", "(TM)", "(r)", "(tm)"]
            .iter()
            .fold(name.to_owned(), |name, mark| name.replace(mark, " "));
        let name = name.split_whitespace().filter(|word| !["CPU", "Processor"].contains(word));
        let name = name.collect::<Vec<_>>().join(" ");
        let mut all = format!("{name} {} {} cores", self.generation, self.cores);
        if self.pages == HUGE_PAGES {
            all += " huge pages";
        }
        let words = all.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
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
    fn machines_of_a_kind_have_one_name() {
        let machine = |cpu: &str, generation: &str, pages: &str| {
            let (cpu, generation, pages) =
                (cpu.to_owned(), generation.to_owned(), pages.to_owned());
            Machine { cpu, generation, pages, cores: 2, ..Machine::default() }.kind()
        };
        let small = machine("AMD EPYC", "family 25, model 1", "4 KB pages");
        assert_eq!(small, "amd-epyc-family-25-model-1-2-cores");
        let huge = machine("AMD EPYC", "family 25, model 1", "huge pages");
        assert_eq!(huge, "amd-epyc-family-25-model-1-2-cores-huge-pages");
        let xeon = machine("Intel(R) Xeon(R) Processor @ 2.70GHz", "family 6, model 143", "");
        assert_eq!(xeon, "intel-xeon-family-6-model-143-2-cores");
        assert_eq!(machine("", "", ""), "2-cores", "what is not known is no word");
    }

    #[test]
    fn what_is_not_known_is_not_told() {
        let facts = Machine::default().facts();
        assert_eq!(facts, [("Virtual machine", "no".to_owned())]);
    }
}
