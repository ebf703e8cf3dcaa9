//! Reads a radio on its own thread.

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use crate::{Clock, Publisher, Reading, SignalSource, SourceError, Subscriber, board};

/// Pause after the first failure of a radio; each further failure in a row doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Reads a radio on its own thread and keeps the latest reading.
///
/// A radio that fails is read again after a pause of 0.1 s, doubled each time up to 5 s, unless its
/// error is lasting. An empty reading replaces its last one, so that sessions do not follow that
/// for ever. When the monitor is dropped, the thread ends as soon as the source's call returns.
pub struct Monitor {
    label: String,
    note: Option<String>,
    subscriber: Subscriber,
    error: Arc<Mutex<Option<SourceError>>>,
    thread: JoinHandle<()>,
    /// Dropping it ends the thread.
    _alive: Sender<()>,
}

impl Monitor {
    /// Starts to read; `period` is the time between readings.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn start(source: Box<dyn SignalSource>, clock: Clock, period: Duration) -> io::Result<Self> {
        Self::start_with(source, clock, period, |_| ())
    }

    /// Like [`Self::start`], with a callback for every reading and not only the latest:
    /// `on_reading` is called with each, on the thread that reads, after it is on the board.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn start_with(
        source: Box<dyn SignalSource>,
        clock: Clock,
        period: Duration,
        on_reading: impl FnMut(&Reading) + Send + 'static,
    ) -> io::Result<Self> {
        let (publisher, subscriber) = board();
        let error = Arc::new(Mutex::new(None));
        let (alive, ended) = channel();
        let (label, note) = (source.label(), source.note());
        let mut reader = Reader { source, publisher, error: error.clone(), ended, on_reading };
        let thread = std::thread::Builder::new().name(format!("signal {label}"));
        let thread = thread.spawn(move || reader.run(clock, period))?;
        Ok(Self { label, note, subscriber, error, thread, _alive: alive })
    }

    /// Returns a readable name of the radio.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the note of the source when it was started; see [`SignalSource::note`].
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns access to the latest reading for other threads.
    pub fn subscriber(&self) -> Subscriber {
        self.subscriber.clone()
    }

    /// Returns the latest reading; `None` before the first.
    pub fn reading(&self) -> Option<Reading> {
        self.subscriber.latest()
    }

    /// Returns the reason for missing readings; `None` while the source answers. If it [is
    /// lasting](SourceError::is_lasting), none will arrive.
    pub fn error(&self) -> Option<SourceError> {
        let broke_off = || SourceError::Missing {
            radio: self.label.clone(),
            problem: "reading it broke off, which is a defect of the program".to_owned(),
        };
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        error.or_else(|| self.thread.is_finished().then(broke_off))
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Monitor");
        fields.field("label", &self.label).field("reading", &self.reading()).field("error", &self.error());
        fields.finish_non_exhaustive()
    }
}

/// State of the thread.
struct Reader<H> {
    source: Box<dyn SignalSource>,
    publisher: Publisher,
    error: Arc<Mutex<Option<SourceError>>>,
    /// Disconnected when the monitor is dropped.
    ended: Receiver<()>,
    on_reading: H,
}

impl<H: FnMut(&Reading)> Reader<H> {
    fn run(&mut self, clock: Clock, period: Duration) {
        let mut pause = Duration::ZERO;
        while self.continues_after(pause) {
            match self.source.next(clock, period) {
                Ok(reading) => {
                    self.note(None);
                    pause = Duration::ZERO;
                    if let Some(reading) = reading {
                        self.publisher.publish(&reading);
                        (self.on_reading)(&reading);
                    }
                }
                Err(error) => {
                    self.publisher.publish(&Reading { at: clock.now(), ..Reading::default() });
                    let lasting = error.is_lasting();
                    self.note(Some(error));
                    if lasting {
                        return;
                    }
                    pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                }
            }
        }
    }

    /// Pauses; returns `true` if the monitor still exists.
    fn continues_after(&self, pause: Duration) -> bool {
        self.ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
    }

    fn note(&self, error: Option<SourceError>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        sync::atomic::{AtomicBool, Ordering},
        thread::sleep,
        time::Instant,
    };

    use squall_units::short::at_us;

    use super::*;

    /// Answers from a script, then with no new reading.
    struct Script {
        answers: VecDeque<Result<Option<Reading>, SourceError>>,
        gone: Arc<AtomicBool>,
    }

    impl Script {
        fn new(answers: impl IntoIterator<Item = Result<Option<Reading>, SourceError>>) -> Self {
            Self { answers: answers.into_iter().collect(), gone: Arc::default() }
        }

        fn start(self) -> Monitor {
            let clock = Clock::new(Instant::now());
            Monitor::start(Box::new(self), clock, Duration::from_millis(5)).expect("there are threads")
        }
    }

    impl Drop for Script {
        fn drop(&mut self) {
            self.gone.store(true, Ordering::Release);
        }
    }

    impl SignalSource for Script {
        fn label(&self) -> String {
            "script".to_owned()
        }

        fn next(&mut self, _: Clock, timeout: Duration) -> Result<Option<Reading>, SourceError> {
            self.answers.pop_front().unwrap_or_else(|| {
                sleep(timeout);
                Ok(None)
            })
        }
    }

    fn failed() -> SourceError {
        SourceError::Failed { radio: "script".to_owned(), problem: "no answer".to_owned() }
    }

    fn eventually(what: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !what() {
            assert!(Instant::now() < end, "it does not come to that");
            sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn readings_arrive_in_order_and_the_latest_stays() {
        let readings = [-60.0, -61.0, -62.0].map(|rssi| Reading::wifi(at_us(1), rssi));
        let (send, received) = channel();
        let source = Box::new(Script::new(readings.map(|reading| Ok(Some(reading)))));
        let clock = Clock::new(Instant::now());
        let monitor = Monitor::start_with(source, clock, Duration::from_millis(5), move |reading| {
            let _ = send.send(*reading);
        });
        let monitor = monitor.expect("there are threads");
        assert_eq!([(); 3].map(|()| received.recv().expect("is read")), readings);
        assert_eq!(monitor.reading(), Some(readings[2]));
        assert_eq!(monitor.subscriber().latest(), Some(readings[2]));
        assert_eq!((monitor.error(), monitor.label(), monitor.note()), (None, "script", None));
    }

    #[test]
    fn a_source_that_fails_is_read_again_after_a_pause() {
        let before = Reading::wifi(at_us(1), -60.0);
        let after = Reading::wifi(at_us(2), -70.0);
        let begin = Instant::now();
        let monitor = Script::new([Ok(Some(before)), Err(failed()), Err(failed()), Ok(Some(after))]).start();
        eventually(|| monitor.error() == Some(failed()));
        let empty = monitor.reading().expect("an empty one");
        assert_eq!(
            Reading { at: at_us(0), ..empty },
            Reading::default(),
            "the last reading no longer counts"
        );
        eventually(|| monitor.reading() == Some(after));
        assert_eq!(monitor.error(), None);
        assert!(begin.elapsed() >= FIRST_PAUSE * 3, "a pause, and one twice as long");
    }

    #[test]
    fn a_lasting_error_ends_the_reading() {
        let ended = SourceError::Ended("script".to_owned());
        let script = Script::new([Ok(Some(Reading::wifi(at_us(1), -60.0))), Err(ended.clone()), Ok(None)]);
        let gone = script.gone.clone();
        let monitor = script.start();
        eventually(|| gone.load(Ordering::Acquire));
        assert_eq!((monitor.error(), monitor.reading().and_then(|r| r.rssi)), (Some(ended), None));
    }

    #[test]
    fn dropping_the_monitor_drops_the_source() {
        for script in [Script::new([]), Script::new([Err(failed()), Err(failed()), Err(failed())])] {
            let gone = script.gone.clone();
            let monitor = script.start();
            sleep(Duration::from_millis(20));
            assert!(!gone.load(Ordering::Acquire));
            let begin = Instant::now();
            drop(monitor);
            eventually(|| gone.load(Ordering::Acquire));
            // Dropping waits neither for the rest of a pause nor for the thread.
            assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
        }
    }

    #[test]
    fn a_source_that_panics_is_reported_as_lost() {
        let mut readings = 0;
        let source = Box::new(Script::new([Ok(Some(Reading::wifi(at_us(1), -60.0)))]));
        let clock = Clock::new(Instant::now());
        let monitor = Monitor::start_with(source, clock, Duration::from_millis(5), move |_| {
            readings += 1;
            assert_eq!(readings, 0, "on purpose");
        });
        let monitor = monitor.expect("there are threads");
        eventually(|| monitor.error().is_some());
        let error = monitor.error().expect("is there");
        assert!(error.is_lasting() && error.to_string().starts_with("script: reading it broke off"));
    }
}
