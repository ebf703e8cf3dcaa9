//! Checks that real packets between real sockets match the configuration of the links: delay, rate,
//! loss, and two fast links at once.
//!
//! The test has no harness: without root, namespaces can only be entered before there are threads.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("not on this system: the shell needs Linux");
}

#[cfg(target_os = "linux")]
mod measure;

#[cfg(target_os = "linux")]
fn main() {
    // Before entering a user namespace, in which every user appears as root.
    let must_be_possible =
        std::path::Path::new("/dev/net/tun").exists() && rustix::process::geteuid().is_root();
    match probe() {
        Ok(privilege) => println!("namespaces by {privilege:?}"),
        Err(error) => {
            assert!(!must_be_possible, "{error}");
            return squall_testkit::skipped(&error.to_string());
        }
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, test) in measure::TESTS {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            let judged = squall_testkit::in_real_time(test);
            println!("test {name} ... {}", if judged { "ok" } else { "excused" });
        }
    }
}

/// Checks that a shell can be made here: the right to create namespaces, and devices in them.
#[cfg(target_os = "linux")]
fn probe() -> Result<squall_shell::Privilege, squall_shell::ShellError> {
    let privilege = squall_shell::acquire()?;
    let link = "delay=1ms".parse().expect("a link");
    squall_shell::Prepared::new(&[link], 1)?;
    Ok(privilege)
}
