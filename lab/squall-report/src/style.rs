//! Roles, and the CSS that assigns their light and dark colours, dashes and sizes.
//!
//! A drawing uses roles, never colours: a role is a CSS class. Series colours can be distinguished
//! with any kind of colour vision, and dash and marker differ without colour.

/// Meaning of a mark in a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The background.
    Page,
    Ink,
    Muted,
    Grid,
    Outage,
    /// Words on an outage, which stand out from the grid behind them.
    OutageText,
    Link,
    /// Data in the direction that is not the main one.
    Back,
    Limit,
    /// The bound, which no scheduler can exceed.
    Bound,
    Bad,
    StateGood,
    StateHeld,
    StateSuspect,
    StateDown,
    /// A scheduler, by its index in the report; line with dashes.
    Series(usize),
    /// A scheduler without dashes, for lines of many points.
    Solid(usize),
}

/// Roles without a number, with their class names.
const NAMES: [(Role, &str); 15] = [
    (Role::Page, "page"),
    (Role::Ink, "ink"),
    (Role::Muted, "muted"),
    (Role::Grid, "grid"),
    (Role::Outage, "outage"),
    (Role::OutageText, "outagetext"),
    (Role::Link, "link"),
    (Role::Back, "back"),
    (Role::Limit, "limit"),
    (Role::Bound, "bound"),
    (Role::Bad, "bad"),
    (Role::StateGood, "good"),
    (Role::StateHeld, "held"),
    (Role::StateSuspect, "suspect"),
    (Role::StateDown, "down"),
];

/// Number of series before the styles repeat.
pub(crate) const SERIES: usize = 8;

impl Role {
    fn name(self) -> String {
        match self {
            Role::Series(index) | Role::Solid(index) => format!("series{}", index % SERIES),
            fixed => {
                NAMES.iter().find(|(role, _)| *role == fixed).map_or_else(String::new, |row| row.1.to_owned())
            }
        }
    }

    /// Returns the class of a filled shape.
    pub(crate) fn fill(self) -> String {
        format!("f-{}", self.name())
    }

    /// Returns the class of a line.
    pub(crate) fn stroke(self) -> String {
        let dashed = if matches!(self, Role::Series(_)) { "s-series " } else { "" };
        format!("{dashed}s-{}", self.name())
    }
}

/// Replaces control characters, which names from files may contain.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// Formats a number without trailing zeros.
pub(crate) fn trim(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the style of the drawings: values for light and dark, and the classes.
pub(crate) fn drawing_css() -> String {
    let mut css = String::from(VALUES);
    for (_, name) in NAMES {
        css.push_str(&format!(".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}\n"));
    }
    for (n, dash) in DASHES.iter().enumerate() {
        css.push_str(&format!(
            ".f-series{n}{{fill:var(--series{n})}}.s-series{n}{{stroke:var(--series{n})}}\
             .s-series.s-series{n}{{stroke-dasharray:{dash}}}\n"
        ));
    }
    css + LINES
}

const LINES: &str = "\
.f-limit{paint-order:stroke;stroke:var(--page);stroke-width:3.5px;stroke-linejoin:round}\
.f-outagetext{paint-order:stroke;stroke:var(--outage);stroke-width:4px;stroke-linejoin:round}
polyline{stroke-linejoin:round}.s-limit{stroke-dasharray:4 4}.s-link{stroke-dasharray:1.5 2.5}.s-back{stroke-dasharray:6 2.5}\
.s-bound{stroke-dasharray:0 4;stroke-linecap:round}
svg text{font-family:system-ui,\"Segoe UI\",\"Liberation Sans\",sans-serif}
";

const DASHES: [&str; SERIES] =
    ["none", "8 3.5", "2 3", "9 3 2 3", "14 4", "5 2", "1 4.5", "11 2.5 2 2.5 2 2.5"];

const VALUES: &str = "\
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--muted:#57606a;--grid:#e3e6ea;--rule:#c9ced6;\
--outage:#e9e4da;--outagetext:#57606a;--link:#8a919b;--back:#1b1f24;--limit:#57606a;--bound:#1b1f24;--bad:#b3261e;\
--good:#b9dec9;--held:#cfd6e6;--suspect:#f6dfa4;--down:#f0b7ae;\
--series0:#0068a8;--series1:#c04f00;--series2:#00805c;--series3:#a63c84;\
--series4:#966a00;--series5:#4d5560;--series6:#6a3fc0;--series7:#00798c}
@media (prefers-color-scheme:dark){:root{--page:#14171b;--ink:#e8eaed;--muted:#a2abb6;--grid:#2b3038;--rule:#444b55;\
--outage:#37322a;--outagetext:#a2abb6;--link:#7f8894;--back:#e8eaed;--limit:#a2abb6;--bound:#e8eaed;--bad:#ff8a80;\
--good:#1f5a3c;--held:#39435c;--suspect:#6b5313;--down:#7a2f27;\
--series0:#5cb8f2;--series1:#ff9350;--series2:#36cf9f;--series3:#ec8fcb;\
--series4:#e9b949;--series5:#bcc4ce;--series6:#b59bff;--series7:#4fd0e3}}
@media print{:root{color-scheme:light}}
";

/// Style of the page around the drawings.
pub(crate) const PAGE_CSS: &str = "\
body{margin:0 auto;padding:2rem 1.5rem 4rem;max-width:1104px;background:var(--page);color:var(--ink);\
font:16px/1.5 system-ui,\"Segoe UI\",\"Liberation Sans\",sans-serif}
h1{font-size:1.8rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.35rem;margin:3rem 0 .5rem;\
border-top:2px solid var(--ink);padding-top:.8rem}h3{font-size:1.05rem;margin:2rem 0 .4rem}
p{margin:.3rem 0 .8rem;max-width:46rem}.note{color:var(--muted)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;min-width:100%}
caption{text-align:left;color:var(--muted);padding:.8rem 0 .4rem}
th,td{padding:.3rem .55rem;text-align:left;border-bottom:1px solid var(--grid);white-space:nowrap}
thead th{border-bottom:2px solid var(--rule);font-weight:600;vertical-align:bottom}
th span{display:block;color:var(--muted);font-weight:400}
.number{text-align:right}tbody th{font-weight:600}
.fail{color:var(--bad);font-weight:700}
figure{margin:.4rem 0 1.6rem}figure svg{display:block;width:100%;height:auto}
figcaption{color:var(--muted);font-size:.9rem;max-width:46rem}
.pair{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,30rem),1fr));gap:0 1.2rem}
.pair>section{min-width:0}.pair h3{margin-top:1.2rem}.lead{font-weight:600}
.contents{columns:2 26rem;padding-left:1.2rem}.contents li{break-inside:avoid;margin:.15rem 0}a{color:inherit}
.claims th,.claims td{white-space:normal;vertical-align:top}.claims td:nth-last-child(-n+3){min-width:7rem}\
.claims tbody th p{font-weight:400;color:var(--muted);margin:.2rem 0 0}
.verdict{white-space:nowrap}.verdict.fails,.verdict.holds{font-weight:700}.verdict.fails{color:var(--bad)}
details{margin:1rem 0}summary{cursor:pointer;font-weight:600}
@media print{body{padding:0;max-width:none;font-size:11pt}figure,table{break-inside:avoid}\
.scroll{overflow:visible}table{font-size:7.5pt}th,td{padding:.15rem .3rem}h2{break-before:page}h2:first-of-type{break-before:auto}}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_a_style() {
        let css = drawing_css();
        let series = (0..SERIES).flat_map(|n| [Role::Series(n), Role::Solid(n)]);
        for role in NAMES.map(|row| row.0).into_iter().chain(series) {
            assert!(css.contains(&format!(".{}{{fill:", role.fill())), "{role:?}");
            assert!(VALUES.contains(&format!("--{}:", role.name())), "{role:?}");
        }
        assert_eq!(
            (Role::Series(9).stroke(), Role::Solid(1).stroke()),
            ("s-series s-series1".into(), "s-series1".into())
        );
    }

    #[test]
    fn numbers_have_no_trailing_zeros() {
        assert_eq!([100.0, 0.1, 0.001].map(trim), ["100", "0.1", "0.001"]);
    }
}
