//! Real processes: started, watched, killed, and always reaped.
//!
//! Children bind port 0 and print their address; a port that is looked up as free beforehand
//! is somebody else's by the time it is bound, so there is no helper for that.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Clock, SystemClock};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

/// Lines of a child's output that are kept.
const MAX_LINES: usize = 2000;
/// Where a longer line is broken.
const MAX_LINE_BYTES: u64 = 16 << 10;
/// Lines that an error quotes.
const TAIL_LINES: usize = 40;
/// How often a child that is waited for is looked at.
const POLL: Duration = Duration::from_millis(5);

/// What to start.
#[derive(Debug, Clone)]
pub struct Launch {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Launch {
    /// Starts this binary.
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self { program: program.as_ref().into(), args: Vec::new(), env: Vec::new() }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// A child process. Killed and reaped when dropped; its stdin ends when this process does.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Mutex<Output>>,
    #[expect(dead_code, reason = "held open: a child may end when its stdin does")]
    stdin: Option<ChildStdin>,
}

/// What the machine spent on a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// User and system time of all its threads.
    pub cpu_seconds: f64,
    /// Resident memory that is backed by no file.
    pub anonymous_bytes: u64,
}

/// A child that did not do what was expected, with the end of its output.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The binary cannot be started.
    #[error("start {program}: {source}")]
    Start {
        /// The binary.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ended before it said what was waited for.
    #[error("{name} ended ({status}) before it printed {text:?}; its last lines:\n{tail}")]
    Ended {
        /// The child.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// What was waited for.
        text: String,
        /// Its last lines.
        tail: String,
    },
    /// It did not do it in time.
    #[error("{name} did not {what} within {limit:?}; its last lines:\n{tail}")]
    Late {
        /// The child.
        name: String,
        /// What was waited for.
        what: String,
        /// For how long.
        limit: Duration,
        /// Its last lines.
        tail: String,
    },
    /// The system refused.
    #[error("{name}: {source}")]
    System {
        /// The child.
        name: String,
        /// Why.
        source: io::Error,
    },
}

impl Process {
    /// Starts a child whose output is kept.
    pub fn start(launch: &Launch) -> Result<Self, ProcessError> {
        let program = launch.program.display().to_string();
        let mut child = Command::new(&launch.program)
            .args(&launch.args)
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| ProcessError::Start { program, source })?;
        let output = Arc::new(Mutex::new(Output::default()));
        if let Some(stdout) = child.stdout.take() {
            keep_lines(stdout, Arc::clone(&output));
        }
        if let Some(stderr) = child.stderr.take() {
            keep_lines(stderr, Arc::clone(&output));
        }
        let file = launch.program.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{file}[{}]", child.id());
        let stdin = child.stdin.take();
        Ok(Self { name, child, output, stdin })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The first line, on stdout or stderr, that contains `text`.
    pub async fn line_with(&mut self, text: &str, limit: Duration) -> Result<String, ProcessError> {
        let deadline = SystemClock.now() + limit;
        loop {
            let status = self.try_wait()?;
            let is_late = SystemClock.now() >= deadline;
            let (line, is_all) = self.output.lock().find(text);
            if let Some(line) = line {
                return Ok(line);
            }
            // What a child said last is still in its pipes when it has ended.
            if let Some(status) = status.filter(|_| is_all || is_late) {
                let (name, tail) = (self.name.clone(), self.tail());
                return Err(ProcessError::Ended { name, status, text: text.into(), tail });
            }
            if is_late {
                return Err(self.late(format!("print {text:?}"), limit));
            }
            SystemClock.sleep(POLL).await;
        }
    }

    /// What follows `prefix` in the first line that contains it: how a child names its address.
    pub async fn announced(
        &mut self,
        prefix: &str,
        limit: Duration,
    ) -> Result<String, ProcessError> {
        let line = self.line_with(prefix, limit).await?;
        let after = line.split_once(prefix).map_or("", |(_, after)| after);
        Ok(after.trim().to_owned())
    }

    /// Kills it without warning, and reaps it.
    pub fn kill_9(&mut self) -> Result<ExitStatus, ProcessError> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|source| self.refused(source))
    }

    /// Asks it to end, and waits until it has.
    pub async fn terminate(&mut self, limit: Duration) -> Result<ExitStatus, ProcessError> {
        self.signal(Signal::TERM)?;
        self.wait(limit).await
    }

    /// Freezes it: sockets stay open, nothing answers.
    pub fn pause(&self) -> Result<(), ProcessError> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Process::pause`].
    pub fn resume(&self) -> Result<(), ProcessError> {
        self.signal(Signal::CONT)
    }

    /// Waits until it has ended by itself.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus, ProcessError> {
        let deadline = SystemClock.now() + limit;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            if SystemClock.now() >= deadline {
                return Err(self.late("end".into(), limit));
            }
            SystemClock.sleep(POLL).await;
        }
    }

    /// Its last lines.
    pub fn tail(&self) -> String {
        self.output.lock().tail()
    }

    /// What it cost so far.
    pub fn usage(&self) -> Result<Usage, ProcessError> {
        Usage::of(self.pid()).map_err(|source| self.refused(source))
    }

    fn try_wait(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        self.child.try_wait().map_err(|source| self.refused(source))
    }

    fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        // The child is not reaped while `self` can still signal it, so the id is still its own.
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let sent = pid.ok_or(rustix::io::Errno::SRCH).and_then(|pid| kill_process(pid, signal));
        sent.map_err(|errno| self.refused(errno.into()))
    }

    fn late(&self, what: String, limit: Duration) -> ProcessError {
        ProcessError::Late { name: self.name.clone(), what, limit, tail: self.tail() }
    }

    fn refused(&self, source: io::Error) -> ProcessError {
        ProcessError::System { name: self.name.clone(), source }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has been reaped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Usage {
    /// What the machine spent on any process.
    pub fn of(pid: u32) -> io::Result<Self> {
        let invalid = |file: &str| io::Error::new(io::ErrorKind::InvalidData, file.to_owned());
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let ticks = cpu_ticks(&stat).ok_or_else(|| invalid("stat"))?;
        let anonymous_kib = anonymous_kib(&status).ok_or_else(|| invalid("status"))?;
        Ok(Self {
            cpu_seconds: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            anonymous_bytes: anonymous_kib << 10,
        })
    }
}

/// utime + stime. The command's name comes before, in brackets, and may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    const UTIME_AFTER_NAME: usize = 11;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(UTIME_AFTER_NAME);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn anonymous_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// The last lines of a child, both streams in the order in which they were read.
#[derive(Debug, Default)]
struct Output {
    lines: VecDeque<String>,
    open_pipes: u32,
}

impl Output {
    fn push(&mut self, line: String) {
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The first line with `text`, and whether no further lines can come.
    fn find(&self, text: &str) -> (Option<String>, bool) {
        let line = self.lines.iter().find(|line| line.contains(text)).cloned();
        (line, self.open_pipes == 0)
    }

    fn tail(&self) -> String {
        let skipped = self.lines.len().saturating_sub(TAIL_LINES);
        let lines: Vec<_> = self.lines.iter().skip(skipped).map(String::as_str).collect();
        lines.join("\n")
    }
}

/// A thread reads for as long as the pipe is open: a full pipe would stop the child.
fn keep_lines(pipe: impl Read + Send + 'static, output: Arc<Mutex<Output>>) {
    output.lock().open_pipes += 1;
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!((&mut pipe).take(MAX_LINE_BYTES).read_until(b'\n', &mut line), Ok(1..)) {
            output.lock().push(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
            line.clear();
        }
        output.lock().open_pipes -= 1;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Process {
        Process::start(&Launch::new("/bin/sh").arg("-c").arg(script)).unwrap()
    }

    #[tokio::test]
    async fn a_child_is_heard_on_both_streams() {
        let mut child = shell("echo up on 127.0.0.1:4711; echo warned >&2; exec sleep 60");
        assert_eq!(child.announced("up on ", SOON).await.unwrap(), "127.0.0.1:4711");
        assert_eq!(child.line_with("warn", SOON).await.unwrap(), "warned");
    }

    #[tokio::test]
    async fn a_child_that_dies_or_is_late_is_quoted() {
        let error = shell("echo no such disk >&2; exit 3").line_with("ready", SOON).await;
        let text = error.unwrap_err().to_string();
        assert!(text.contains("no such disk") && text.contains("exit status: 3"), "{text}");

        let late = shell("exec sleep 60").line_with("ready", Duration::from_millis(20)).await;
        assert!(matches!(late, Err(ProcessError::Late { .. })), "{late:?}");
    }

    #[tokio::test]
    async fn children_are_killed_terminated_and_reaped_on_drop() {
        use std::os::unix::process::ExitStatusExt;
        let mut child = shell("exec sleep 60");
        assert_eq!(child.kill_9().unwrap().signal(), Some(9));
        let mut child = shell("trap 'exit 7' TERM; echo armed; while :; do sleep 0.01; done");
        child.line_with("armed", SOON).await.unwrap();
        assert_eq!(child.terminate(SOON).await.unwrap().code(), Some(7));

        let child = shell("exec sleep 60");
        let proc = PathBuf::from(format!("/proc/{}", child.pid()));
        assert!(proc.exists());
        drop(child);
        assert!(!proc.exists());
    }

    #[tokio::test]
    async fn a_paused_child_stands_still_until_it_is_resumed() {
        let mut child = shell("while :; do :; done");
        child.pause().unwrap();
        SystemClock.sleep(Duration::from_millis(20)).await;
        let paused = child.usage().unwrap().cpu_seconds;
        SystemClock.sleep(Duration::from_millis(100)).await;
        assert!((child.usage().unwrap().cpu_seconds - paused).abs() < f64::EPSILON);
        child.resume().unwrap();
        let deadline = SystemClock.now() + SOON;
        while child.usage().unwrap().cpu_seconds <= paused {
            assert!(SystemClock.now() < deadline, "no CPU time after it was resumed");
            SystemClock.sleep(POLL).await;
        }
        assert!(child.usage().unwrap().anonymous_bytes > 0);
        child.kill_9().unwrap();
    }

    #[test]
    fn a_command_named_like_a_stat_line_is_read_right() {
        let stat = "7 (a) R 1) S 1 7 7 0 -1 4194560 100 0 0 0 25 17 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(42));
    }
}
