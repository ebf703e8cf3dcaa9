//! Compares the public interface of the libraries with its text, `public-api.txt` in the folder of
//! each. A change of the interface fails this test until the text is written again, and so appears
//! in the diff of a commit:
//!
//! `SQUALL_UPDATE=1 cargo test -p squall-testkit --test public_api`

use std::{collections::BTreeSet, fs, path::Path};

use syn::{
    Attribute, Fields, ImplItem, Item, TraitItem, Type, Visibility, parse_quote, punctuated::Punctuated,
    visit_mut::VisitMut,
};

/// Crates whose interface is compared. The lint `unreachable_pub` ensures that everything declared
/// public is reachable, so declarations are the interface.
const CRATES: [&str; 3] = ["squall", "squall-proto", "squall-sched"];

#[test]
fn the_public_interface_is_the_written_one() {
    let mut changes = Vec::new();
    for name in CRATES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        let (interface, file) = (interface_of(&folder.join("src")), folder.join("public-api.txt"));
        if std::env::var_os("SQUALL_UPDATE").is_some() {
            fs::write(&file, &interface).expect("the file can be written");
            continue;
        }
        let written = fs::read_to_string(&file).unwrap_or_default();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let (before, now) = (lines(&written), lines(&interface));
        changes.extend(before.difference(&now).map(|line| format!("{name} - {line}")));
        changes.extend(now.difference(&before).map(|line| format!("{name} + {line}")));
        if written != interface && changes.is_empty() {
            changes.push(format!("{name}: the order of its lines"));
        }
    }
    assert!(
        changes.is_empty(),
        "the public interface has changed:\n{}\nif that is intended: SQUALL_UPDATE=1 cargo test -p squall-testkit --test public_api",
        changes.join("\n")
    );
}

/// Returns the public items of a crate without their bodies, in alphabetical order.
fn interface_of(source: &Path) -> String {
    let mut items = Vec::new();
    let library = fs::read_to_string(source.join("lib.rs")).expect("can be read");
    let hidden =
        syn::parse_file(&library).expect("is Rust").items.into_iter().filter_map(|item| match item {
            Item::Mod(item) if is_hidden(&item.attrs) => Some(item.ident.to_string()),
            _ => None,
        });
    read(source, &hidden.collect(), &mut items);
    let types: BTreeSet<String> = items.iter().filter_map(name_of_type).collect();
    let mut texts = BTreeSet::new();
    for mut item in items {
        if let Some(()) = publish(&mut item, &types) {
            Plain.visit_item_mut(&mut item);
            let file = syn::File { shebang: None, attrs: Vec::new(), items: vec![item] };
            texts.insert(prettyplease::unparse(&file));
        }
    }
    texts.into_iter().collect()
}

/// Reads the files of a folder, except those of hidden modules.
fn read(folder: &Path, hidden: &BTreeSet<String>, items: &mut Vec<Item>) {
    for entry in fs::read_dir(folder).expect("can be listed") {
        let path = entry.expect("can be listed").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("is UTF-8");
        if hidden.contains(name.trim_end_matches(".rs")) {
            continue;
        }
        if path.is_dir() {
            read(&path, hidden, items);
        } else if name.ends_with(".rs") && !matches!(name, "tests.rs" | "fuzz.rs" | "contract.rs") {
            let text = fs::read_to_string(&path).expect("can be read");
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            items.extend(file.items);
        }
    }
}

fn name_of_type(item: &Item) -> Option<String> {
    let (name, visibility) = match item {
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// `true` if an item is for tests, for fuzzing or hidden.
fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let tokens = match &attribute.meta {
            syn::Meta::List(list) => list.tokens.to_string(),
            _ => return false,
        };
        attribute.path().is_ident("doc") && tokens.contains("hidden")
            || attribute.path().is_ident("cfg") && (tokens.contains("test") || tokens.contains("fuzzing"))
    })
}

/// Reduces an item to its public part; `None` if it has none.
fn publish(item: &mut Item, types: &BTreeSet<String>) -> Option<()> {
    let is_shown = match item {
        Item::Const(item) => is_public(&item.vis) && !is_hidden(&item.attrs),
        Item::Enum(item) => is_public(&item.vis) && !is_hidden(&item.attrs),
        Item::Fn(item) => is_public(&item.vis) && !is_hidden(&item.attrs),
        Item::Mod(item) => {
            let is_shown = is_public(&item.vis) && !is_hidden(&item.attrs);
            item.content = None;
            item.semi = Some(Default::default());
            is_shown
        }
        Item::Struct(item) => {
            hide_private(&mut item.fields);
            is_public(&item.vis) && !is_hidden(&item.attrs)
        }
        Item::Trait(item) => is_public(&item.vis) && !is_hidden(&item.attrs),
        Item::Type(item) => is_public(&item.vis),
        Item::Use(item) => is_public(&item.vis),
        Item::Impl(item) => {
            let of_public = match &*item.self_ty {
                Type::Path(path) => {
                    path.path.segments.last().is_some_and(|last| types.contains(&last.ident.to_string()))
                }
                _ => false,
            };
            if item.trait_.is_some() {
                item.items.clear();
            }
            item.items.retain(|part| match part {
                ImplItem::Const(part) => is_public(&part.vis),
                ImplItem::Fn(part) => is_public(&part.vis) && !is_hidden(&part.attrs),
                _ => false,
            });
            of_public && !is_hidden(&item.attrs) && (item.trait_.is_some() || !item.items.is_empty())
        }
        _ => false,
    };
    is_shown.then_some(())
}

/// Hides the names and types of private fields.
fn hide_private(fields: &mut Fields) {
    let has_private = fields.iter().any(|field| !is_public(&field.vis));
    match fields {
        Fields::Named(fields) => {
            let public = fields.named.iter().filter(|field| is_public(&field.vis)).cloned();
            let mut named: Punctuated<_, _> = public.collect();
            if has_private {
                named.push(parse_quote!(private: _));
            }
            fields.named = named;
        }
        Fields::Unnamed(fields) => {
            fields
                .unnamed
                .iter_mut()
                .filter(|field| !is_public(&field.vis))
                .for_each(|field| field.ty = parse_quote!(_));
        }
        Fields::Unit => {}
    }
}

/// Removes bodies, values and all attributes except those of the interface.
struct Plain;

impl VisitMut for Plain {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        let kept = ["cfg", "derive", "must_use", "non_exhaustive"];
        attributes.retain(|attribute| kept.iter().any(|kept| attribute.path().is_ident(kept)));
    }

    fn visit_item_const_mut(&mut self, item: &mut syn::ItemConst) {
        *item.expr = parse_quote!(_);
        syn::visit_mut::visit_item_const_mut(self, item);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.clear();
    }

    fn visit_trait_item_mut(&mut self, item: &mut TraitItem) {
        syn::visit_mut::visit_trait_item_mut(self, item);
    }
}
