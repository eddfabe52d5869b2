//! The steps that make virtual functions, and take them away.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::PathBuf;

use crate::nic::{Parent, Sysfs};
use crate::system::SystemAccess;
use crate::{Error, Nic, VFIO, written};

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A text is written to a file of sysfs.
    Write {
        /// The file.
        path: PathBuf,
        /// The text.
        text: String,
    },
    /// `ip` is called.
    Ip(Vec<String>),
}

/// One thing that is done, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// What for.
    pub why: String,
}

/// All that is done at one NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The NIC.
    pub nic: Nic,
    /// What is done, in this order.
    pub steps: Vec<Step>,
    /// What takes it back, if one fails.
    undo: Vec<Step>,
    /// Virtual functions that there are to be at the end.
    count: usize,
}

impl Display for Step {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let action = self.action.to_string();
        write!(out, "{action:<78} # {}", self.why)
    }
}

impl Display for Action {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Action::Write { path, text } => write!(out, "echo {text} > {}", path.display()),
            Action::Ip(arguments) => write!(out, "ip {}", arguments.join(" ")),
        }
    }
}

fn write(path: PathBuf, text: impl ToString, why: impl Into<String>) -> Step {
    Step { action: Action::Write { path, text: text.to_string() }, why: why.into() }
}

fn ip(arguments: &[&str], why: impl Into<String>) -> Step {
    let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
    Step { action: Action::Ip(arguments), why: why.into() }
}

/// What is to be done for a NIC to have its virtual functions.
///
/// # Errors
/// [`Error`]: what is seen already to be in the way.
pub fn create(sysfs: &Sysfs, nic: &Nic) -> Result<Plan, Error> {
    let parent = sysfs.parent(&nic.device)?;
    let (device, wanted) = (nic.device.clone(), nic.functions.len());
    if wanted > parent.total {
        return Err(Error::TooFew { device, total: parent.total, wanted });
    }
    if !parent.children.is_empty() {
        return Err(Error::Present { device, count: parent.children.len() });
    }
    let Some(interface) = &parent.interface else { return Err(Error::NoInterface { device }) };
    if !sysfs.has_driver(&nic.driver) {
        return Err(Error::NoDriver { driver: nic.driver.clone() });
    }
    // A virtual function has a group of its own where its NIC has one.
    if nic.driver == VFIO && parent.group.is_none() {
        return Err(Error::NoGroup { device, driver: nic.driver.clone() });
    }
    let folder = sysfs.device(&parent.address);
    let addresses = parent.addresses(wanted).ok_or(Error::NoSriov { device })?;
    let autoprobe = folder.join("sriov_drivers_autoprobe");
    let numvfs = folder.join("sriov_numvfs");
    let mut steps = vec![ip(&["link", "set", "dev", interface, "up"], "the NIC itself is up")];
    let mut undo = vec![write(numvfs.clone(), 0, "no virtual functions")];
    if parent.autoprobe == Some(true) {
        steps.push(write(autoprobe.clone(), 0, "the kernel takes none of them for itself"));
        undo.push(write(autoprobe, 1, "as it was"));
    }
    steps.push(write(numvfs, wanted, "so many virtual functions"));
    for (number, function) in nic.functions.iter().enumerate() {
        let (number, mac) = (number.to_string(), written(function.mac));
        let switch = |on: bool| if on { "on" } else { "off" };
        let (spoof, trust) = (switch(function.spoof_check), switch(function.trust));
        let words = ["link", "set", "dev", interface, "vf", &number, "mac", &mac];
        let words = [&words[..], &["spoofchk", spoof, "trust", trust]].concat();
        steps.push(ip(&words, format!("{}: who it is, and what it may", function.name)));
    }
    for (function, address) in nic.functions.iter().zip(&addresses) {
        let path = sysfs.device(address).join("driver_override");
        steps.push(write(path, &nic.driver, format!("{}: for this driver only", function.name)));
        let bound = format!("{}: bound", function.name);
        steps.push(write(sysfs.drivers_probe(), address, bound));
    }
    steps.extend(undo.get(1).cloned());
    Ok(Plan { nic: nic.clone(), steps, undo, count: wanted })
}

/// What is to be done for a NIC to have no virtual functions: nothing where there are
/// none.
///
/// # Errors
/// [`Error`]: the NIC is not there.
pub fn remove(sysfs: &Sysfs, nic: &Nic) -> Result<Plan, Error> {
    let parent = sysfs.parent(&nic.device)?;
    let numvfs = sysfs.device(&parent.address).join("sriov_numvfs");
    let why =
        format!("{} virtual functions, and all that they were given, go", parent.children.len());
    let steps = match parent.children.is_empty() {
        true => Vec::new(),
        false => vec![write(numvfs, 0, why)],
    };
    Ok(Plan { nic: nic.clone(), steps, undo: Vec::new(), count: 0 })
}

/// Does what is planned, at all NICs or at none: when a step fails, or what should be there
/// at the end is not, everything is taken back.
///
/// # Errors
/// [`Error`]: the step that failed, and why.
pub fn carry_out(
    sysfs: &Sysfs,
    plans: &[Plan],
    system: &mut dyn SystemAccess,
) -> Result<(), Error> {
    for (done, plan) in plans.iter().enumerate() {
        let outcome = plan.steps.iter().try_for_each(|step| carry(&step.action, system));
        let outcome = outcome.and_then(|()| plan.verify(sysfs));
        if let Err(error) = outcome {
            for step in plans[..=done].iter().rev().flat_map(|plan| &plan.undo) {
                // What was not done need not be undone: the first error is the one to tell.
                let _ = carry(&step.action, system);
            }
            return Err(error);
        }
    }
    Ok(())
}

fn carry(action: &Action, system: &mut dyn SystemAccess) -> Result<(), Error> {
    let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    match action {
        Action::Write { path, text } => system.write(path, text).map_err(|error| match &error {
            error if denied(error) => Error::Denied(path.display().to_string()),
            _ => Error::File { path: path.clone(), error },
        }),
        Action::Ip(arguments) => match system.ip(arguments) {
            Ok(_) => Ok(()),
            Err(error) if denied(&error) => Err(Error::Denied(action.to_string())),
            Err(error) => Err(Error::Ip { command: action.to_string(), said: error.to_string() }),
        },
    }
}

impl Plan {
    /// Whether what there should be is there.
    fn verify(&self, sysfs: &Sysfs) -> Result<(), Error> {
        let Nic { device, driver, .. } = &self.nic;
        let Parent { children, .. } = sysfs.parent(device)?;
        if children.len() != self.count {
            let (device, count) = (device.clone(), children.len());
            return Err(Error::Made { device, count, wanted: self.count });
        }
        for (number, child) in children.iter().enumerate() {
            let address = child.address.clone();
            if child.driver.as_ref() != Some(driver) {
                let (bound, driver) = (child.driver.clone(), driver.clone());
                return Err(Error::NotBound { address, bound, driver });
            }
            if driver != VFIO {
                continue;
            }
            let Some(group) = child.group else {
                return Err(Error::NoGroup { device: address, driver: driver.clone() });
            };
            if let Some(other) = children[..number].iter().find(|one| one.group == Some(group)) {
                let first = other.address.clone();
                return Err(Error::SharedGroup { first, second: address, group });
            }
        }
        Ok(())
    }
}
