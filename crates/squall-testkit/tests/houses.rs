//! Checks that nothing that users link or run as the product depends on the laboratory.

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::Value;

/// The Python package contains both: the laboratory for research, and sessions.
const BOTH: &str = "squall-python";

/// Returns the house of a workspace package: the first folder of its path.
fn house(package: &Value, root: &Path) -> Option<String> {
    let manifest = Path::new(package["manifest_path"].as_str()?).strip_prefix(root).ok()?;
    Some(manifest.iter().next()?.to_str()?.to_owned())
}

#[test]
fn the_product_does_not_depend_on_the_laboratory() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("is there");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .expect("cargo is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let packages = metadata["packages"].as_array().expect("is a list");
    let houses: BTreeMap<&str, String> = packages
        .iter()
        .filter_map(|package| Some((package["name"].as_str()?, house(package, &root)?)))
        .collect();
    let of = |house: &str| houses.values().filter(|of| *of == house).count();
    assert!(of("crates") >= 8 && of("lab") >= 5, "{houses:?}");
    let product = packages.iter().filter_map(|package| Some((package, package["name"].as_str()?)));
    for (package, name) in
        product.filter(|(_, name)| houses.get(name).is_some_and(|house| house != "lab") && *name != BOTH)
    {
        // Tests may use emulated links: users neither link nor run them.
        let uses = package["dependencies"].as_array().expect("is a list");
        let uses = uses.iter().filter(|used| used["kind"].as_str() != Some("dev"));
        for used in uses.filter_map(|used| used["name"].as_str()) {
            let is_lab = houses.get(used).is_some_and(|house| house == "lab");
            assert!(
                !is_lab,
                "{name} belongs to the product and depends on {used}, which belongs to the laboratory"
            );
        }
    }
}
