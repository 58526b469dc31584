from pathlib import Path

from grundlag_bus.chaos.history import Acknowledged, Ended, History, Record, file_of, read, read_all
from tests.support.made_up_calls import MadeUp, fault


def test_what_is_written_is_read(tmp_path: Path) -> None:
    records: list[Record] = [
        *MadeUp().records,
        fault(),
        Ended(1.5, "c2", "interrupted", "w", asks={"interruptId": "ü", "state": "s"}),
    ]
    write(tmp_path, "caller-1", 1, records)
    assert list(read_all(tmp_path)) == records


def test_a_line_that_was_being_written_when_its_process_died_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "caller-1", 1, MadeUp().records)
    file = file_of(tmp_path, "caller-1", 1)
    file.write_bytes(file.read_bytes()[:-3])
    assert list(read(file)) == MadeUp().records[:-1]


def test_every_life_of_one_process_is_read_and_no_other_process(tmp_path: Path) -> None:
    for life in (1, 2, 10):
        write(tmp_path, "caller-1", life, [Acknowledged(life, "c")])
    write(tmp_path, "caller-11", 1, [Acknowledged(99, "c")])
    assert {record.at for record in read_all(tmp_path, "caller-1")} == {1, 2, 10}


def test_a_later_writer_of_a_file_goes_on_where_the_first_one_stopped(tmp_path: Path) -> None:
    write(tmp_path, "nemesis", 1, [fault()])
    write(tmp_path, "nemesis", 1, [fault()])
    assert list(read_all(tmp_path)) == [fault(), fault()]


def write(folder: Path, process: str, life: int, records: list[Record]) -> None:
    with History(file_of(folder, process, life)) as history:
        for record in records:
            history.write(record)
