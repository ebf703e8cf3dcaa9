//! Whether real packets between real sockets meet what the links say: delay, rate, loss, and two fast links at once.
//!
//! A program of its own, for namespaces without root can only be entered before there are threads.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("not on this system: the shell needs Linux");
}

#[cfg(target_os = "linux")]
mod measure;

#[cfg(target_os = "linux")]
fn main() {
    match squall_shell::acquire() {
        Ok(privilege) => println!("namespaces by {privilege:?}"),
        Err(error) if std::env::var_os("CI").is_none() => return println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, test) in measure::TESTS {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
}
