//! log closed → memory of the signer → note → segment published → log removed.

use std::path::{Path, PathBuf};

use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_faults::When;
use sealcast_tests::{Bucket, Process, ReadPipe, SHIPPER, SignerLine, WRITER, WritePipe, until};

use super::{Stage, member};
use crate::signer::signer;

/// What of the seal lies in the folders of writer and signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// The signer remembers the new size.
    signed: bool,
    /// A note without its segment.
    noted: bool,
    published: bool,
    /// The log that the segment was made of.
    log: bool,
}

/// Where the writer dies.
const STEPS: [Seen; 4] = {
    let closed = Seen { signed: false, noted: false, published: false, log: true };
    let signed = Seen { signed: true, ..closed };
    let noted = Seen { noted: true, ..signed };
    [closed, signed, noted, Seen { published: true, noted: false, ..noted }]
};

/// Where a signature is held back: the memory is not read, or the request does not arrive.
enum Gate {
    File(Option<ReadPipe>),
    Line(SignerLine),
}

struct Seals {
    stage: Stage,
    gate: Gate,
    /// The signer's memory.
    memory: PathBuf,
    aside: PathBuf,
}

impl Seals {
    fn signed(&self) -> Option<u64> {
        member(&self.memory, "size")?.as_u64()
    }

    fn close(&mut self) {
        match &mut self.gate {
            Gate::File(pipe) => *pipe = Some(ReadPipe::instead_of(&self.memory, &self.aside)),
            Gate::Line(line) => line.hold(When::Before),
        }
    }

    async fn reached(&mut self) {
        match &mut self.gate {
            Gate::File(pipe) => pipe.as_mut().unwrap().reached("memory is read").await,
            Gate::Line(line) => line.reached("asked to sign").await,
        }
    }

    fn let_go(&mut self) {
        match &mut self.gate {
            Gate::File(pipe) => pipe.as_mut().unwrap().let_go(),
            Gate::Line(line) => line.let_go(),
        }
    }

    /// Nobody waits any more.
    fn end(&mut self) {
        match &mut self.gate {
            Gate::File(pipe) => pipe.take().unwrap().end(),
            Gate::Line(line) => line.cut(),
        }
    }

    /// The segment that waits for its signature, under the name that it is to have.
    fn segment(&self) -> PathBuf {
        let [temporary] = self.stage.files("sealed", ".seg.tmp").try_into().unwrap();
        temporary.with_extension("")
    }

    fn log_of(&self, segment: &Path) -> PathBuf {
        let shard = segment.parent().unwrap().file_name().unwrap();
        let start = segment.file_name().unwrap().to_str().unwrap().split('.').next().unwrap();
        self.stage.cluster.path("writer/wal").join(shard).join(format!("{start}.wal"))
    }

    fn seen(&self, segment: &Path, before: Option<u64>) -> Seen {
        let published = segment.is_file();
        Seen {
            signed: self.signed() > before,
            noted: segment.with_extension("note").exists() && !published,
            published,
            log: self.log_of(segment).exists(),
        }
    }

    /// Kills the writer when exactly `step` lies in the folders.
    async fn kill_at(&mut self, step: Seen) {
        let (before, what) = (self.signed(), format!("{step:?}"));
        self.close();
        self.stage.begin().await;
        self.reached().await;
        let (segment, note, log) = {
            let segment = self.segment();
            (segment.clone(), segment.with_extension("note"), self.log_of(&segment))
        };
        let kept = self.stage.cluster.path("log");
        let mut pipe = None;
        if step.published {
            // The log is removed soon after: this is how it looks until then.
            std::fs::hard_link(&log, &kept).unwrap();
            self.let_go();
            until(&what, || async { segment.is_file().then_some(()) }).await;
        } else if step.noted {
            // It cannot be renamed to a folder's name. The shipper must not see that one.
            self.stage.cluster.process(SHIPPER).signal("STOP");
            std::fs::create_dir(&segment).unwrap();
            self.let_go();
            until(&what, || async { note.exists().then_some(()) }).await;
        } else if step.signed {
            pipe = Some(WritePipe::before(&note));
            self.let_go();
            until(&what, || async { (self.signed() > before).then_some(()) }).await;
        }
        self.stage.cluster.kill_role(WRITER);
        self.end();
        pipe.into_iter().for_each(WritePipe::end);
        if step.published && !log.exists() {
            std::fs::hard_link(&kept, &log).unwrap();
        }
        if step.published {
            RealFiles.remove(&kept).unwrap();
        }
        if step.noted {
            std::fs::remove_dir(&segment).unwrap();
        }
        assert_eq!(self.seen(&segment, before), step);
        self.stage.look();
        if step.noted {
            self.stage.cluster.process(SHIPPER).signal("CONT");
        }
    }

    async fn goes_on(&mut self, what: &str) {
        self.stage.whole(what).await;
        assert!(self.stage.files("sealed", ".tmp").is_empty(), "{what}");
        let counted = ["seg", "note"].map(|end| self.stage.files("sealed", end).len());
        assert_eq!(counted[0], counted[1], "{what}: a note for each segment, and no other");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_killed_at_any_step_of_a_seal_signs_no_fork() {
    let mut stage = Stage::start(Bucket::start().await, &[]).await;
    stage.whole("at first").await;
    let [memory] = stage.files("keys", ".signed").try_into().unwrap();
    let aside = stage.cluster.path("aside");
    let mut seals = Seals { stage, gate: Gate::File(None), memory, aside };
    for step in STEPS {
        seals.kill_at(step).await;
        seals.stage.restart(WRITER).await;
        seals.goes_on(&format!("{step:?}")).await;
    }
    // Four seals more than were broken off, and the first.
    assert!(seals.stage.notes.count() > 2 * STEPS.len(), "{:?}", seals.stage.notes);
    seals.stage.cluster.terminate().await;
}

/// Who dies while a request to sign, or its answer, is on its way.
const DEATHS: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_or_its_signer_killed_at_any_step_of_a_seal_signs_no_fork() {
    let signers = tempfile::tempdir().unwrap();
    let mut running = Some(signer(signers.path()).await);
    let front = signers.path().join("front");
    let line = SignerLine::start(&front, signers.path().join("socket"));
    let socket = format!("unix:{}", front.display());
    let settings = [("SEALCAST_WRITER_SIGNER", socket.as_str())];
    let mut stage = Stage::start(Bucket::start().await, &settings).await;
    stage.whole("at first").await;
    let found = sealcast_tests::files_under(&signers.path().join("signer"), ".signed");
    let [memory] = found.try_into().unwrap();
    let aside = signers.path().join("aside");
    let mut seals = Seals { stage, gate: Gate::Line(line), memory, aside };
    for step in STEPS {
        seals.kill_at(step).await;
        seals.stage.notes.keep_folder(signers.path());
        seals.stage.restart(WRITER).await;
        seals.goes_on(&format!("{step:?}")).await;
    }
    for (when, (writer_dies, signer_dies)) in
        [When::Before, When::After].into_iter().flat_map(|when| DEATHS.map(|who| (when, who)))
    {
        let what = format!("{when:?} signing, writer {writer_dies}, signer {signer_dies}");
        let before = seals.signed();
        let Gate::Line(line) = &seals.gate else { panic!("a line") };
        line.hold(when);
        seals.stage.begin().await;
        line.reached(&what).await;
        let segment = seals.segment();
        if signer_dies {
            running.take().into_iter().for_each(Process::kill);
        }
        if writer_dies {
            seals.stage.cluster.kill_role(WRITER);
        }
        line.cut();
        let expected = Seen { signed: when == When::After, ..STEPS[0] };
        assert_eq!(seals.seen(&segment, before), expected, "{what}");
        seals.stage.notes.keep_folder(signers.path());
        if signer_dies {
            running = Some(signer(signers.path()).await);
        }
        if writer_dies {
            seals.stage.restart(WRITER).await;
        }
        seals.goes_on(&what).await;
    }
    // The signer itself, while it looks up what it has signed.
    let mut pipe = ReadPipe::instead_of(&seals.memory, &seals.aside);
    seals.stage.begin().await;
    pipe.reached("the signer reads its memory").await;
    running.take().into_iter().for_each(Process::kill);
    pipe.end();
    let running = signer(signers.path()).await;
    seals.goes_on("signer at its memory").await;
    keep_answers(&mut seals);
    seals.stage.cluster.terminate().await;
    assert!(running.terminate().await.success());
}

/// Every note that ever left the signer, also those that reached nobody.
fn keep_answers(seals: &mut Seals) {
    let Gate::Line(line) = &seals.gate else { panic!("a line") };
    let answers = line.answers();
    let notes = answers.iter().filter_map(|answer| {
        let answer: serde_json::Value = serde_json::from_str(answer).ok()?;
        answer["note"].as_str().map(str::to_owned)
    });
    let notes: Vec<String> = notes.collect();
    assert!(notes.len() > 2 * STEPS.len(), "{answers:?}");
    notes.iter().for_each(|note| seals.stage.notes.keep_note(note, "the signer's answer"));
}
