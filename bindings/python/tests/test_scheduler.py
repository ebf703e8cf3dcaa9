"""Schedulers in Python."""

import json
from typing import Any

import pytest
from conftest import ROOT, SHORT

from squall import lab


class MinRtt(lab.Scheduler):
    name = "my-minrtt"

    def next(self, context: lab.Context) -> lab.Send | None:
        path, work = context.fastest_with_room(), context.next_in_line()
        return lab.Send(work, path) if path and work else None


def without_name(run: lab.Run) -> dict[str, Any]:
    result = run.to_dict()
    # Checks are for schedulers named in a scenario.
    return {key: value for key, value in result.items() if key not in ("scheduler", "checks")}


@pytest.mark.parametrize("name", ["lossy", "fading", "outage-first", "groups"])
def test_minrtt_is_the_built_in_one(name: str) -> None:
    results = lab.run(ROOT / f"scenarios/{name}.toml", ["minrtt", MinRtt], [1, 2])
    assert [run.scheduler for run in results] == ["minrtt", "minrtt", "my-minrtt", "my-minrtt"]
    for built_in, mine in zip(results[:2], results[2:], strict=True):
        assert json.dumps(without_name(mine)) == json.dumps(without_name(built_in))


def test_minrtt_from_the_fields_of_paths_and_blocks_is_the_same() -> None:
    class ByHand(lab.Scheduler):
        def next(self, context: lab.Context) -> lab.Send | lab.Idle:
            paths = [path for path in context.paths if path.has_room]
            lost = [block for block in context.blocks() if block.reliable and block.lost_bytes]
            fresh = [block for block in context.blocks() if block.fresh_bytes]
            work = context.next_repair() if lost else context.next_fresh() if fresh else None
            if not paths or work is None:
                return lab.Idle()
            return lab.Send(work, min(paths, key=lambda path: (path.srtt, path.id)).id)

    built_in, mine = lab.run("scenarios/lossy.toml", ["minrtt", ByHand], 1)
    assert mine.scheduler == "ByHand"
    assert without_name(mine) == without_name(built_in)


def test_the_hooks_of_a_class_are_those_of_a_built_in_scheduler() -> None:
    class OnlySlow(lab.Scheduler):
        may_hedge = False
        sharing = 1

        def next(self, context: lab.Context) -> lab.Send | None:
            path, work = context.path(1), context.next_in_line()
            return lab.Send(work, path) if path and path.has_room and work else None

    class CappedRtt(MinRtt):
        name = "capped"
        metered_cap = 200_000

    follows = {"name": "game", "kind": "game", "fps": 30, "bitrate_min": "1mbps", "bitrate_max": "20mbps", "deadline": "200ms"}
    fast, slow = SHORT["path"]
    scenario = {**SHORT, "duration": "5s", "path": [fast, {**slow, "metered": True}], "flow": [follows]}
    for built_in, mine in [("sp(path=1)", OnlySlow), ("minrtt(cap=200kB)", CappedRtt)]:
        theirs, own = lab.run(scenario, [built_in, mine], 1)
        assert json.dumps(without_name(own)) == json.dumps(without_name(theirs))
    [without] = lab.run(scenario, type("AsASum", (OnlySlow,), {"sharing": "sum"}), 1)
    [theirs] = lab.run(scenario, "sp(path=1)", 1)
    assert without_name(without) != without_name(theirs)
    with pytest.raises(lab.ScenarioError, match="^schedulers: sharing is 'sum', 'free', 'best' or a path's id, not 'all'$"):
        lab.run(scenario, type("Wrong", (MinRtt,), {"sharing": "all"}), 1)


def test_copies_probes_cancels_and_wakes_reach_the_session() -> None:
    class Everything(lab.Scheduler):
        def __init__(self) -> None:
            self.copied: set[tuple[int, int]] = set()
            self.steps = 0

        def next(self, context: lab.Context) -> lab.Send | lab.Cancel | lab.Probe | lab.Idle | None:
            self.steps += 1
            blocks = context.blocks()
            if self.steps == 20:
                return lab.Cancel(blocks[-1])
            if self.steps == 21:
                return lab.Probe(context.paths[0])
            open_paths = {path.id: path for path in context.paths if path.has_room}
            for block in blocks:
                for start, end, state, on in block.segments:
                    others = [path for path in open_paths if path not in on]
                    if state == "sent" and others and (block.id, start) not in self.copied:
                        self.copied.add((block.id, start))
                        return lab.Send(block.copy(start, end), others[0])
            work = context.next_in_line()
            if work is None or not open_paths:
                return lab.Idle(context.now + 5_000)
            return lab.Send(work.at_most(3_000), next(iter(open_paths.values())))

    [run] = lab.run(SHORT, Everything)
    assert (run.measure("reinjected_bytes") or 0) > 100_000
    assert run.to_dict()["flows"][0]["total"]["cancelled_blocks"] == 1


def test_events_arrive() -> None:
    kinds: dict[str, int] = {}

    class Listener(MinRtt):
        name = "listener"

        def on_event(self, event: lab.Event, context: lab.Context) -> None:  # type: ignore[override]
            kinds[event.kind] = kinds.get(event.kind, 0) + 1
            if event.kind in ("acked", "lost"):
                assert event.path in (0, 1) and event.end > event.start  # type: ignore[operator]
            if event.kind == "queued":
                assert context.block(event.block) is not None  # type: ignore[arg-type]

    [run] = lab.run(SHORT, Listener)
    offered = run.to_dict()["flows"][0]["total"]["offered_blocks"]
    assert kinds["queued"] == offered
    assert kinds["acked"] > offered and kinds["lost"] > 0 and kinds["path"] >= 2 and kinds["done"] > 0


def answers(answer: Any, setup: Any = None) -> type[lab.Scheduler]:
    class Answers(lab.Scheduler):
        def next(self, context: lab.Context) -> Any:
            return answer(self, context)

    return Answers


def stale(scheduler: Any, context: lab.Context) -> Any:
    scheduler.work = getattr(scheduler, "work", None) or context.next_in_line()
    if hasattr(scheduler, "used"):
        return lab.Send(scheduler.work, context.fastest_with_room() or 0)
    scheduler.used = True
    return None


def kept(scheduler: Any, context: lab.Context) -> Any:
    if not hasattr(scheduler, "context"):
        scheduler.context = context
        return None
    return scheduler.context.next_in_line()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (lambda _, context: 3, TypeError, r"next\(\) returned a int, not Send"),
        (lambda _, context: lab.Send(context.next_in_line(), 5), ValueError, "Send: there is no path 5"),
        (lambda _, context: lab.Cancel(10_000), ValueError, "Cancel: there is no block 10000"),
        (lambda _, context: lab.Probe(9), ValueError, "Probe: there is no path 9"),
        (lambda _, context: 1 / 0, ZeroDivisionError, "division by zero"),
        (lambda _, context: context.blocks()[0].copy(0, 10), ValueError, "copy: 0 to 10 of block 0 is not within"),
        (lambda _, context: context.blokcs(), AttributeError, "blokcs"),
        (stale, ValueError, "Send: the work is of an earlier call"),
        (kept, RuntimeError, "a context is valid until the call ends"),
    ],
)
def test_a_mistake_is_raised_by_the_run(answer: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        lab.run(SHORT, answers(answer))


def test_a_path_without_room_is_reported() -> None:
    def flood(_: Any, context: lab.Context) -> Any:
        work = context.next_in_line()
        return lab.Send(work, 0) if work else None

    with pytest.raises(ValueError, match="^Send: path 0 has no room$"):
        lab.run({**SHORT, "flow": [{"name": "bulk", "kind": "bulk"}]}, answers(flood))


def test_a_class_that_cannot_be_used_is_reported() -> None:
    class Broken(MinRtt):
        name = "broken"

        def __init__(self) -> None:
            raise OSError("no table")

    class BuiltIn(MinRtt):
        name = "minrtt"

    class Worded(MinRtt):
        name = "two words"

    with pytest.raises(OSError, match="^no table$"):
        lab.run(SHORT, Broken)
    with pytest.raises(lab.ScenarioError, match='^schedulers: "minrtt" is the name of a built-in one$'):
        lab.run(SHORT, BuiltIn)
    with pytest.raises(lab.ScenarioError, match="^schedulers: scheduler 'two words' is not of the form"):
        lab.run(SHORT, Worded)
