//! Frame sizes of a film from a CSV file.

use std::path::Path;

use squall_trace::TraceError;

use super::fields::MAX_BLOCK;
use super::frame_type::FrameType;

/// Largest file in bytes.
const MAX_FILE: u64 = 64 << 20;

/// Latest presentation time in milliseconds: 24 h.
const MAX_PTS_MS: f64 = 86_400_000.0;

/// One frame, or one layer of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRow {
    /// Picture, counted from 0 in the order of the file.
    pub picture: usize,
    /// Presentation time in microseconds.
    pub pts_us: u64,
    /// Frame type, if the file contains it.
    pub frame_type: Option<FrameType>,
    /// Layer, 0 for the base.
    pub layer: u8,
    /// Size in bytes, at least 1.
    pub size: u64,
}

/// Frames of a film: sizes, types and layers. At least two pictures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameTrace {
    rows: Vec<FrameRow>,
    pictures: usize,
    duration_us: u64,
    bytes: u64,
    layers: u8,
}

impl FrameTrace {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TraceError`] names the file and the line.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let text = squall_file::read_text(path, MAX_FILE);
        Self::parse(&text.map_err(|error| TraceError::file(&name, error.to_string()))?, &name)
    }

    /// Parses a text; `name` stands for the file in errors. The first line names the columns:
    /// `frame`, a number or name that the layers of a picture share, `pts_ms` and `size_bytes`, and
    /// optionally `type` (I, P or B) and `layer` (from 0, ascending within a picture). Other
    /// columns are ignored, as are lines that begin with `#`.
    ///
    /// # Errors
    /// [`TraceError`] names the line.
    pub fn parse(text: &str, name: &str) -> Result<Self, TraceError> {
        let wrong = |line: usize, problem: String| TraceError::file(&format!("{name}:{line}"), problem);
        let lines = text.lines().map(|line| line.trim_end_matches('\r')).enumerate();
        let mut lines = lines
            .map(|(index, line)| (index + 1, line))
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let (head, names) =
            lines.next().ok_or_else(|| wrong(1, "there is no line with the names of columns".into()))?;
        let columns = Columns::of(names).map_err(|problem| wrong(head, problem))?;
        let mut rows: Vec<FrameRow> = Vec::new();
        let (mut last, mut frame) = (head, "");
        for (line, text) in lines {
            let fields: Vec<&str> = text.split(',').map(str::trim).collect();
            let same = !rows.is_empty() && fields.get(columns.frame).is_some_and(|field| *field == frame);
            let before = rows.last().copied();
            let row = columns.row(&fields, before, same).map_err(|problem| wrong(line, problem))?;
            rows.push(row);
            frame = fields[columns.frame];
            last = line;
        }
        Self::of(rows).map_err(|problem| wrong(last, problem))
    }

    fn of(mut rows: Vec<FrameRow>) -> Result<Self, String> {
        let pictures = rows.last().map_or(0, |row| row.picture + 1);
        let first = rows.iter().map(|row| row.pts_us).min().unwrap_or(0);
        for row in &mut rows {
            row.pts_us -= first;
        }
        let span = rows.iter().map(|row| row.pts_us).max().unwrap_or(0);
        if pictures < 2 || span == 0 {
            return Err("a film has at least two pictures, at different times".into());
        }
        // The last picture is shown for the mean duration of the others.
        let duration_us = span + span / (pictures as u64 - 1);
        let bytes = rows.iter().map(|row| row.size).sum();
        let layers = rows.iter().map(|row| row.layer).max().unwrap_or(0) + 1;
        Ok(Self { rows, pictures, duration_us, bytes, layers })
    }

    /// Frames in the order of the file, the layers of each in sequence. Times count from the first
    /// picture.
    pub fn rows(&self) -> &[FrameRow] {
        &self.rows
    }

    /// Number of pictures.
    pub fn pictures(&self) -> usize {
        self.pictures
    }

    /// Duration in microseconds.
    pub fn duration_us(&self) -> u64 {
        self.duration_us
    }

    /// Mean interval between pictures in microseconds, at least 1.
    pub fn picture_us(&self) -> u64 {
        (self.duration_us / self.pictures as u64).max(1)
    }

    /// Total size of all frames in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of layers; 1 for the base only.
    pub fn layers(&self) -> u8 {
        self.layers
    }
}

/// Indices of the columns.
struct Columns {
    frame: usize,
    pts: usize,
    frame_type: Option<usize>,
    layer: Option<usize>,
    size: usize,
}

impl Columns {
    fn of(names: &str) -> Result<Self, String> {
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        let find = |name: &str| names.iter().position(|found| *found == name);
        let need = |name: &str| find(name).ok_or_else(|| format!("there is no column {name}"));
        Ok(Self {
            frame: need("frame")?,
            pts: need("pts_ms")?,
            frame_type: find("type"),
            layer: find("layer"),
            size: need("size_bytes")?,
        })
    }

    /// Parses a line that belongs to the `same` picture as the row `before` it, or to the next one.
    fn row(&self, fields: &[&str], before: Option<FrameRow>, same: bool) -> Result<FrameRow, String> {
        let field = |column: usize, name: &str| {
            fields.get(column).copied().ok_or_else(|| format!("{name}: the line has no such field"))
        };
        let pts_us = pts(field(self.pts, "pts_ms")?)?;
        let frame_type = match self.frame_type.map(|column| field(column, "type")).transpose()? {
            None | Some("") => None,
            Some(word) => Some(frame_type(word)?),
        };
        let layer = match self.layer.map(|column| field(column, "layer")).transpose()? {
            None | Some("") => 0,
            Some(word) => word
                .parse()
                .ok()
                .filter(|layer| *layer < 8)
                .ok_or_else(|| format!("layer: {word:?} is not a number from 0 to 7"))?,
        };
        let word = field(self.size, "size_bytes")?;
        let size = word.parse().ok().filter(|size| (1..=MAX_BLOCK).contains(size));
        let size =
            size.ok_or_else(|| format!("size_bytes: {word:?} is not a whole number from 1 to {MAX_BLOCK}"))?;
        field(self.frame, "frame")?;
        let picture = match before {
            Some(before) if same => {
                if before.pts_us != pts_us {
                    return Err("pts_ms: not that of the layer before it".into());
                }
                if before.layer >= layer {
                    return Err("layer: not above that of the line before it".into());
                }
                before.picture
            }
            Some(before) => before.picture + 1,
            None => 0,
        };
        Ok(FrameRow { picture, pts_us, frame_type, layer, size })
    }
}

fn pts(word: &str) -> Result<u64, String> {
    let ms: Option<f64> = word.parse().ok().filter(|ms| (0.0..=MAX_PTS_MS).contains(ms));
    let us = ms.map(|ms| (ms * 1_000.0).round() as u64);
    us.ok_or_else(|| format!("pts_ms: {word:?} is not a number of milliseconds from 0 to {MAX_PTS_MS}"))
}

fn frame_type(word: &str) -> Result<FrameType, String> {
    let mut letters = word.chars();
    match (letters.next().and_then(FrameType::of), letters.next()) {
        (Some(frame_type), None) => Ok(frame_type),
        _ => Err(format!("type: {word:?} is none of I, P and B")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_film_or_an_error_of_one_line(
            lines in prop::collection::vec("[0-3]?,-?[0-9.]{0,4},[IPBX]?,[0-9]?,[0-9]{0,9}|\\PC{0,20}", 0..12),
        ) {
            let text = format!("frame,pts_ms,type,layer,size_bytes\n{}", lines.join("\n"));
            match FrameTrace::parse(&text, "t.csv") {
                Ok(film) => {
                    prop_assert!(film.pictures() >= 2 && film.picture_us() >= 1);
                    prop_assert_eq!(film.bytes(), film.rows().iter().map(|row| row.size).sum::<u64>());
                    let last = film.rows().iter().map(|row| row.pts_us).max().unwrap_or(0);
                    prop_assert!(film.duration_us() >= last);
                }
                Err(error) => {
                    let words = error.to_string();
                    prop_assert!(words.starts_with("t.csv:") && !words.contains('\n'), "{words}");
                }
            }
        }
    }

    #[test]
    fn remarks_and_further_columns_are_passed_over() {
        let text = "# made by hand\r\nsize_bytes,frame,pts_ms,note\r\n\r\n900,a,40,x\r\n100,b,80,y\r\n";
        let film = FrameTrace::parse(text, "t.csv").expect("it is a film");
        let rows: Vec<_> = film.rows().iter().map(|row| (row.picture, row.pts_us, row.size)).collect();
        assert_eq!(rows, [(0, 0, 900), (1, 40_000, 100)]);
        assert_eq!((film.duration_us(), film.picture_us(), film.layers()), (80_000, 40_000, 1));
    }
}
