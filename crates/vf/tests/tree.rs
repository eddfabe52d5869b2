//! Virtual functions of a made-up machine in a temporary folder.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weft_vf::{
    Kernel, Nic, Sysfs, SystemAccess, Traffic, VFIO, VirtualFunction, carry_out, create, remove,
    resolve, show,
};

const PARENT: &str = "0000:01:00.0";

/// A machine with one NIC, `eth0`, whose virtual functions come and go as the kernel's
/// would.
struct Machine {
    folder: TempDir,
    /// Commands that were given to `ip`.
    said: Vec<String>,
    /// What `ip` answers.
    answer: String,
    /// A driver that does not take virtual functions.
    refuses: Option<&'static str>,
    /// Whether all virtual functions are in one IOMMU group.
    shares: bool,
    /// A part of what may not be written or said.
    forbidden: Option<&'static str>,
}

impl Machine {
    fn new() -> Machine {
        let folder = TempDir::new().unwrap();
        let machine = Machine {
            folder,
            said: Vec::new(),
            answer: "[]".to_owned(),
            refuses: None,
            shares: false,
            forbidden: None,
        };
        let parent = machine.device(PARENT);
        fs::create_dir_all(parent.join("net/eth0")).unwrap();
        for (file, text) in [
            ("sriov_totalvfs", "7\n"),
            ("sriov_numvfs", "0\n"),
            ("sriov_offset", "384\n"),
            ("sriov_stride", "2\n"),
            ("sriov_drivers_autoprobe", "1\n"),
        ] {
            fs::write(parent.join(file), text).unwrap();
        }
        fs::create_dir_all(machine.path("class/net/eth0")).unwrap();
        let up = Path::new("../../../bus/pci/devices").join(PARENT);
        symlink(up, machine.path("class/net/eth0/device")).unwrap();
        fs::create_dir_all(machine.path("bus/pci/drivers").join(VFIO)).unwrap();
        fs::write(machine.path("bus/pci/drivers_probe"), "").unwrap();
        machine.join_group(PARENT, 1);
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn device(&self, address: &str) -> PathBuf {
        self.path("bus/pci/devices").join(address)
    }

    fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.folder.path())
    }

    fn join_group(&self, address: &str, group: u32) {
        let to = format!("../../../../kernel/iommu_groups/{group}");
        symlink(to, self.device(address).join("iommu_group")).unwrap();
    }

    fn text(&self, address: &str, file: &str) -> String {
        fs::read_to_string(self.device(address).join(file)).unwrap().trim().to_owned()
    }

    fn count(&self) -> usize {
        self.sysfs().parent("eth0").unwrap().children.len()
    }

    fn appear(&self, number: u32) {
        let id = 0x100 + 384 + 2 * number;
        let address = format!("0000:{:02x}:{:02x}.{}", id >> 8, id >> 3 & 0x1f, id & 7);
        fs::create_dir_all(self.device(&address)).unwrap();
        fs::write(self.device(&address).join("driver_override"), "(null)\n").unwrap();
        let link = self.device(PARENT).join(format!("virtfn{number}"));
        symlink(Path::new("..").join(&address), link).unwrap();
        self.join_group(&address, if self.shares { 9 } else { 10 + number });
    }

    fn vanish(&self) {
        for number in 0..7 {
            let link = self.device(PARENT).join(format!("virtfn{number}"));
            if let Ok(target) = fs::read_link(&link) {
                fs::remove_file(&link).unwrap();
                fs::remove_dir_all(self.device(target.file_name().unwrap().to_str().unwrap()))
                    .unwrap();
            }
        }
    }
}

impl SystemAccess for Machine {
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        if self.forbidden.is_some_and(|part| path.ends_with(part)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Nothing comes into being by being written to.
        fs::metadata(path)?;
        if path.ends_with("drivers_probe") {
            let over = self.text(text, "driver_override");
            if over != "(null)" && self.refuses != Some(over.as_str()) {
                let driver = Path::new("../../drivers").join(over);
                symlink(driver, self.device(text).join("driver"))?;
            }
            return Ok(());
        }
        fs::write(path, text)?;
        if path.ends_with("sriov_numvfs") {
            self.vanish();
            (0..text.parse().unwrap()).for_each(|number| self.appear(number));
        }
        Ok(())
    }

    fn ip(&mut self, arguments: &[String]) -> io::Result<String> {
        let said = arguments.join(" ");
        if self.forbidden.is_some_and(|part| said.contains(part)) {
            return Err(io::Error::other("RTNETLINK answers: Invalid argument"));
        }
        self.said.push(said);
        Ok(self.answer.clone())
    }
}

fn nic(count: u8) -> Nic {
    let function = |number| VirtualFunction {
        name: format!("f{number}"),
        mac: [2, 0, 0, 0, 1, number],
        trust: number == 1,
        spoof_check: number != 1,
    };
    Nic {
        name: "nic".to_owned(),
        device: "eth0".to_owned(),
        driver: VFIO.to_owned(),
        functions: (0..count).map(function).collect(),
    }
}

/// What is said of an attempt to make virtual functions.
fn said(machine: &mut Machine, nic: &Nic) -> String {
    let sysfs = machine.sysfs();
    let outcome = create(&sysfs, nic).and_then(|plan| carry_out(&sysfs, &[plan], machine));
    let said = outcome.unwrap_err().to_string();
    assert!(!said.contains('\n'), "{said:?}");
    said.replace(machine.folder.path().to_str().unwrap(), "/sys")
}

#[test]
fn what_is_done_is_known_before_and_leaves_bound_functions() {
    let mut machine = Machine::new();
    let (sysfs, nic) = (machine.sysfs(), nic(2));
    let plan = create(&sysfs, &nic).unwrap();
    let root = machine.folder.path().to_str().unwrap().to_owned();
    let lines: Vec<String> =
        plan.steps.iter().map(|step| step.action.to_string().replace(&root, "/sys")).collect();
    assert_eq!(
        lines,
        [
            "ip link set dev eth0 up",
            "echo 0 > /sys/bus/pci/devices/0000:01:00.0/sriov_drivers_autoprobe",
            "echo 2 > /sys/bus/pci/devices/0000:01:00.0/sriov_numvfs",
            "ip link set dev eth0 vf 0 mac 02:00:00:00:01:00 spoofchk on trust off",
            "ip link set dev eth0 vf 1 mac 02:00:00:00:01:01 spoofchk off trust on",
            "echo vfio-pci > /sys/bus/pci/devices/0000:02:10.0/driver_override",
            "echo 0000:02:10.0 > /sys/bus/pci/drivers_probe",
            "echo vfio-pci > /sys/bus/pci/devices/0000:02:10.2/driver_override",
            "echo 0000:02:10.2 > /sys/bus/pci/drivers_probe",
            "echo 1 > /sys/bus/pci/devices/0000:01:00.0/sriov_drivers_autoprobe",
        ]
    );
    assert_eq!((machine.count(), machine.said.len()), (0, 0), "a plan changes nothing");
    carry_out(&sysfs, &[plan], &mut machine).unwrap();
    let children = sysfs.parent(PARENT).unwrap().children;
    let bound: Vec<_> = children.iter().map(|one| one.driver.as_deref()).collect();
    assert_eq!(bound, [Some(VFIO); 2]);
    assert_eq!(machine.text(PARENT, "sriov_drivers_autoprobe"), "1");
    let nics = [nic.clone()];
    assert_eq!(resolve(&sysfs, &nics, "f1").unwrap(), "0000:02:10.2");
    assert_eq!(
        resolve(&sysfs, &nics, "f2").unwrap_err().to_string(),
        "there is no virtual function f2"
    );

    let plan = remove(&sysfs, &nic).unwrap();
    assert_eq!(plan.steps.len(), 1);
    carry_out(&sysfs, &[plan], &mut machine).unwrap();
    assert_eq!(machine.count(), 0);
    assert!(remove(&sysfs, &nic).unwrap().steps.is_empty());
    assert_eq!(
        resolve(&sysfs, &nics, "f1").unwrap_err().to_string(),
        "the virtual function f1 of eth0 is not there; make it first (weft vf create)"
    );
}

#[test]
fn a_nic_that_is_not_there_or_has_no_virtual_functions() {
    let mut machine = Machine::new();
    let absent = Nic { device: "eth7".to_owned(), ..nic(1) };
    assert_eq!(
        said(&mut machine, &absent),
        "there is no NIC eth7 (with virtual functions there are eth0 (0000:01:00.0))"
    );
    for hostile in ["", "..", "../eth0", "/"] {
        let hostile = Nic { device: hostile.to_owned(), ..nic(1) };
        assert!(said(&mut machine, &hostile).starts_with("there is no NIC"));
    }
    fs::remove_file(machine.device(PARENT).join("sriov_totalvfs")).unwrap();
    assert_eq!(
        said(&mut machine, &nic(1)),
        "eth0 has no virtual functions: neither does its driver offer any, nor its firmware \
         (sriov_totalvfs)"
    );
}

#[test]
fn what_is_in_the_way_is_said_before_anything_is_done() {
    let mut machine = Machine::new();
    assert_eq!(said(&mut machine, &nic(8)), "eth0 has 7 virtual functions at most, 8 are wanted");
    let other = Nic { driver: "uio_pci_generic".to_owned(), ..nic(1) };
    assert_eq!(
        said(&mut machine, &other),
        "the driver uio_pci_generic is not loaded; load it (modprobe uio_pci_generic)"
    );
    fs::remove_file(machine.device(PARENT).join("iommu_group")).unwrap();
    assert_eq!(
        said(&mut machine, &nic(1)),
        "eth0 has no IOMMU group, without which vfio-pci does not take it; start the kernel with \
         intel_iommu=on or amd_iommu=on, and see that the firmware has the IOMMU on"
    );
    machine.join_group(PARENT, 1);
    let path = machine.device(PARENT).join("sriov_numvfs");
    machine.write(&path, "3").unwrap();
    assert_eq!(
        said(&mut machine, &nic(1)),
        "eth0 has 3 virtual functions already, which may be in use; take them away first \
         (weft vf remove)"
    );
    machine.write(&path, "0").unwrap();
    fs::remove_dir(machine.device(PARENT).join("net/eth0")).unwrap();
    let by_address = Nic { device: PARENT.to_owned(), ..nic(1) };
    assert_eq!(
        said(&mut machine, &by_address),
        "0000:01:00.0 has no network interface, by which its virtual functions get addresses; \
         give it back to its driver in the kernel"
    );
    assert!(machine.said.is_empty());
}

#[test]
fn what_fails_on_the_way_is_taken_back() {
    type Spoil = fn(&mut Machine);
    let cases: [(&str, Spoil); 5] = [
        (
            "/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs: permission denied; run it as root",
            |machine| machine.forbidden = Some("sriov_numvfs"),
        ),
        (
            "ip link set dev eth0 vf 1 mac 02:00:00:00:01:01 spoofchk off trust on: RTNETLINK \
             answers: Invalid argument",
            |machine| machine.forbidden = Some("vf 1 mac"),
        ),
        ("0000:02:10.0 is bound to no driver, not to vfio-pci; the kernel's log says why", |one| {
            one.refuses = Some(VFIO);
        }),
        (
            "0000:02:10.0 and 0000:02:10.2 are both in IOMMU group 9, so no two processes can \
             have them; use a slot with access control services (ACS)",
            |machine| machine.shares = true,
        ),
        ("/sys/bus/pci/drivers_probe: permission denied; run it as root", |machine| {
            machine.forbidden = Some("drivers_probe")
        }),
    ];
    for (says, spoil) in cases {
        let mut machine = Machine::new();
        spoil(&mut machine);
        assert_eq!(said(&mut machine, &nic(3)), says);
        assert_eq!(machine.count(), 0, "{says}");
        assert_eq!(machine.text(PARENT, "sriov_drivers_autoprobe"), "1", "{says}");
    }
}

#[test]
fn those_that_are_there_are_shown_with_what_they_carried() {
    let mut machine = Machine::new();
    let (sysfs, wanted) = (machine.sysfs(), nic(2));
    let plan = create(&sysfs, &wanted).unwrap();
    carry_out(&sysfs, &[plan], &mut machine).unwrap();
    machine.answer = r#"[{"ifname":"eth0","vfinfo_list":[
        {"vf":1,"address":"02:00:00:00:01:01","spoofchk":false,"trust":true,
         "stats":{"rx":{"bytes":640,"packets":10},"tx":{"tx_bytes":64,"tx_packets":1}}},
        {"vf":0,"address":"02:00:00:00:01:00","spoofchk":true,"trust":false}]}]"#
        .to_owned();
    let three = nic(3);
    let rows = show(&sysfs, std::slice::from_ref(&three), &mut machine).unwrap();
    let traffic = Traffic { rx_packets: 10, rx_bytes: 640, tx_packets: 1, tx_bytes: 64 };
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].traffic, None);
    assert_eq!((rows[0].trust, rows[0].spoof_check), (Some(false), Some(true)));
    assert_eq!(rows[1].mac.as_deref(), Some("02:00:00:00:01:01"));
    assert_eq!((rows[1].traffic, rows[1].group), (Some(traffic), Some(11)));
    assert_eq!((rows[2].name.as_deref(), rows[2].address.as_deref()), (Some("f2"), None));
    // Without a configuration: all there are.
    let all = show(&sysfs, &[], &mut machine).unwrap();
    assert_eq!(all.iter().map(|row| row.name.clone()).collect::<Vec<_>>(), [None, None]);
}

#[test]
fn the_kernel_says_why_it_does_not() {
    let folder = TempDir::new().unwrap();
    let mut kernel = Kernel { ip: folder.path().join("no-ip") };
    let absent = kernel.ip(&[]).unwrap_err().to_string();
    assert_eq!(absent, "there is no such program; install iproute2");
    assert!(kernel.write(&folder.path().join("none"), "1").is_err());
    assert!(!folder.path().join("none").exists());
}
