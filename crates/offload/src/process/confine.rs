//! What a function process gives up once it is attached: it can handle packets and
//! speak over the sockets it has, and nothing else.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// System calls of a process that moves packets, sleeps, allocates memory and
/// ends. No file can be opened, no program run, no socket made. The C library and
/// DPDK's own thread need some of them.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_tgkill,
    libc::SYS_poll,
    libc::SYS_ppoll,
    // DPDK's thread for interrupts begins anew as devices close.
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_ctl,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_set_robust_list,
    libc::SYS_getrandom,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that may give memory, but none that can be run; the protection is their
/// argument of this number.
const MEMORY: &[(i64, u8)] = &[(libc::SYS_mmap, 2), (libc::SYS_mprotect, 2)];

/// Why a process cannot be confined.
#[derive(Debug, thiserror::Error)]
#[error("seccomp: {0}")]
pub struct Unconfined(String);

/// Confines all threads of this process; a call that is not allowed fails with
/// `EPERM` from now on, and no program can gain privileges (`no_new_privs`).
///
/// # Errors
/// When the kernel has no seccomp.
pub fn confine() -> Result<(), Unconfined> {
    let program = program().map_err(|error| Unconfined(error.to_string()))?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| Unconfined(error.to_string()))
}

fn program() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    for (call, argument) in MEMORY {
        let executable = libc::PROT_EXEC as u64;
        let none = SeccompCondition::new(
            *argument,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(executable),
            0,
        )?;
        rules.insert(*call, vec![SeccompRule::new(vec![none])?]);
    }
    let (otherwise, allowed) = (SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow);
    SeccompFilter::new(rules, otherwise, allowed, TargetArch::x86_64)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_can_be_made() {
        assert!(!program().unwrap().is_empty());
    }
}
