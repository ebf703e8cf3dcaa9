//! Encoding with ffmpeg, and classification of the frames.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ChildStdin;

use super::child::{Running, words};
use super::coding::Coding;
use super::error::StudioError;
use super::{Footage, FrameRate};
use crate::frame::{FrameKind, MAX_FRAME_BYTES};
use crate::ivf::{IvfCodec, IvfFrame, IvfHeader, IvfReader, IvfWriter};
use crate::picture::Picture;

const ENCODING: &str = "encoding";

/// Settings of an encode.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// The `ffmpeg` program.
    pub ffmpeg: OsString,
    /// Kind of encoding.
    pub coding: Coding,
    /// Target bits per second.
    pub bitrate_bps: u64,
    /// Maximum number of pictures.
    pub pictures: u64,
}

/// A frame of an encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodedFrame {
    /// Index of its picture, from 0 in display order.
    pub picture: u64,
    /// Kind of the frame.
    pub kind: FrameKind,
    /// Temporal layer; 0 if there is only one.
    pub layer: u8,
    /// Size in bytes.
    pub size: u64,
}

/// Encodes the footage into an IVF file; returns the frames in decoding order, which is that of the
/// file.
///
/// The same ffmpeg always produces the same bytes, because it encodes in one thread: with two, the
/// rate control of libx264 depends on their relative progress, and no two encodes are identical.
///
/// # Errors
/// If ffmpeg or the output fail, or the footage has no picture.
pub fn encode(
    footage: &Footage,
    encoding: &Encoding,
    out: impl Write,
    mut progress: impl FnMut(u64),
) -> Result<Vec<CodedFrame>, StudioError> {
    let mut pictures = footage.pictures()?;
    let args = arguments(footage, encoding);
    let (mut running, reports) = Running::start(&encoding.ffmpeg, &args, ENCODING, true, Report::parse)?;
    let (input, output) = (running.input(), running.output());
    let (frames, fed) = std::thread::scope(|scope| {
        let feeder = scope.spawn(|| feed(&mut pictures, footage.size, encoding.pictures, input));
        let mut file = EncodeFile::new(footage, encoding.coding, out)?;
        let frames = match encoding.coding {
            Coding::H264 => file.take_h264(output, || reports.recv().ok(), &mut progress),
            Coding::Vp9 | Coding::Svc => file.take_ivf(output, &mut progress),
        };
        let fed = feeder.join().expect("it does not panic");
        Ok::<_, StudioError>((frames.and_then(|()| file.close()), fed))
    })?;
    // Report the first failure: of the source, then of the encoder, then of its output.
    fed?;
    running.finish()?;
    let frames = frames?;
    if frames.is_empty() {
        return Err(StudioError::failed(super::footage::READING, "the film has no picture"));
    }
    Ok(frames)
}

/// Writes pictures until there are no more, or the encoder accepts no more; the encoder then
/// reports the reason.
fn feed(
    pictures: &mut super::Pictures,
    size: (u32, u32),
    count: u64,
    mut input: ChildStdin,
) -> Result<(), StudioError> {
    let mut picture = Picture::new(size.0, size.1)?;
    for _ in 0..count {
        if !pictures.next_into(&mut picture)? {
            break;
        }
        let planes = [&picture.y, &picture.u, &picture.v];
        if planes.into_iter().try_for_each(|plane| input.write_all(plane)).is_err() {
            break;
        }
    }
    Ok(())
}

fn arguments(footage: &Footage, encoding: &Encoding) -> Vec<OsString> {
    let ((width, height), rate, coding) = (footage.size, footage.rate, encoding.coding);
    let bits = encoding.bitrate_bps;
    // Half a second: the amount by which a live encoder may exceed its rate.
    let buffer = (bits / 2).max(1);
    let (encoder, keys) = (coding.encoder(), coding.key_interval(rate));
    let common = format!(
        "-f rawvideo -pix_fmt yuv420p -s:v {width}x{height} -framerate {rate} -i pipe:0 -map 0:v -c:v {encoder} \
         -threads 1 -g {keys} -keyint_min {keys} -b:v {bits} -maxrate {bits} -bufsize {buffer} \
         -colorspace bt709 -color_primaries bt709 -color_trc bt709 -color_range tv"
    );
    let own = if coding == Coding::H264 {
        // No look-ahead, which would delay pictures.
        "-preset veryfast -bf 1 -b_strategy 0 -b-pyramid none -sc_threshold 0 \
         -x264-params rc-lookahead=0:sync-lookahead=0:mbtree=0 \
         -f tee [f=framecrc:flush_packets=1]pipe:2|[f=h264]pipe:1"
            .to_owned()
    } else {
        let [low, middle, all] = [bits / 2, bits * 7 / 10, bits].map(|bps| bps / 1000);
        let layers = format!(
            "-ts-parameters ts_number_layers=3:ts_target_bitrate={low},{middle},{all}:ts_rate_decimator=4,2,1:\
             ts_periodicity=4:ts_layer_id=0,2,1,2:ts_layering_mode=3"
        );
        // Constant rate: otherwise libvpx gives layers many times the requested rate.
        format!(
            "-deadline realtime -cpu-used 7 -lag-in-frames 0 -auto-alt-ref 0 -minrate {bits} -error-resilient 1 \
             {} -f ivf pipe:1",
            if coding == Coding::Svc { &layers } else { "" }
        )
    };
    [words(&common), words(&own)].concat()
}

/// The file of the encode, and its frames. Its time unit is a picture.
struct EncodeFile<W> {
    writer: IvfWriter<W>,
    coding: Coding,
    rate: FrameRate,
    frames: Vec<CodedFrame>,
}

impl<W: Write> EncodeFile<W> {
    fn new(footage: &Footage, coding: Coding, out: W) -> Result<Self, StudioError> {
        let side = |side: u32| u16::try_from(side).expect("sides of pictures are bounded");
        let FrameRate { rate, scale } = footage.rate;
        let (width, height) = (side(footage.size.0), side(footage.size.1));
        let header = IvfHeader { codec: coding.container(), width, height, rate, scale };
        let writer = IvfWriter::new(out, header).map_err(StudioError::io(ENCODING))?;
        Ok(Self { writer, coding, rate: footage.rate, frames: Vec::new() })
    }

    /// A byte stream has neither times nor lengths; ffmpeg reports both separately, before each
    /// frame.
    fn take_h264(
        &mut self,
        mut stream: impl Read,
        mut report: impl FnMut() -> Option<Report>,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), StudioError> {
        while let Some(Report { place, size }) = report() {
            let place = u64::try_from(place).ok().filter(|_| size <= MAX_FRAME_BYTES);
            let place = place.ok_or_else(|| StudioError::failed(ENCODING, "it reports no such frames"))?;
            let mut data = vec![0; size];
            stream.read_exact(&mut data).map_err(StudioError::io(ENCODING))?;
            let frame = IvfFrame { time: place, data: data.into() };
            self.put(&frame, IvfCodec::H264.frame_kind(&frame.data), 0)?;
            progress(self.frames.len() as u64);
        }
        Ok(())
    }

    fn take_ivf(&mut self, stream: impl Read, progress: &mut impl FnMut(u64)) -> Result<(), StudioError> {
        let reader = IvfReader::new(stream).map_err(StudioError::io(ENCODING))?;
        let header = reader.header();
        for frame in reader {
            let frame = frame.map_err(StudioError::io(ENCODING))?;
            let us = frame.time as f64 * 1e6 * f64::from(header.scale) / f64::from(header.rate);
            let frame = IvfFrame { time: self.rate.index_at(us.round() as u64), ..frame };
            let (kind, layer) = (header.codec.frame_kind(&frame.data), self.coding.layer(frame.time));
            let unneeded = kind != FrameKind::Key && self.coding.layers() == Some(layer + 1);
            self.put(&frame, if unneeded { FrameKind::Disposable } else { kind }, layer)?;
            progress(self.frames.len() as u64);
        }
        Ok(())
    }

    fn put(&mut self, frame: &IvfFrame, kind: FrameKind, layer: u8) -> Result<(), StudioError> {
        self.frames.push(CodedFrame { picture: frame.time, kind, layer, size: frame.data.len() as u64 });
        self.writer.write(frame).map_err(StudioError::io(ENCODING))
    }

    fn close(self) -> Result<Vec<CodedFrame>, StudioError> {
        self.writer.finish().map_err(StudioError::io(ENCODING))?;
        Ok(self.frames)
    }
}

/// Report of ffmpeg's `framecrc` about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Report {
    /// Index in display order, if the time base is a picture.
    place: i64,
    /// Size in bytes.
    size: usize,
}

impl Report {
    /// `stream, decoding time, time, duration, size, checksum …`
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(',').map(str::trim);
        let (stream, _, place) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, size, checksum) = (fields.next()?, fields.next()?, fields.next()?);
        if stream != "0" || !checksum.starts_with("0x") {
            return None;
        }
        Some(Self { place: place.parse().ok()?, size: size.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_frames_are_not_complaints() {
        let line = "0,         -1,          0,        1,     6186, 0x6e8e8019, S=1,        8\n";
        assert_eq!(Report::parse(line), Some(Report { place: 0, size: 6186 }));
        let others = [
            "#tb 0: 1/30\n",
            "[h264 @ 0x55] no frame, or, so, it, is, said\n",
            "0, 1, 2\n",
            "",
            "1,0,0,1,5,0x1",
        ];
        for other in others {
            assert_eq!(Report::parse(other), None, "{other}");
        }
    }

    #[test]
    fn codings_are_known_by_name() {
        for coding in Coding::ALL {
            assert_eq!(coding.to_string().parse(), Ok(coding));
        }
        assert!("av1".parse::<Coding>().is_err());
    }
}
