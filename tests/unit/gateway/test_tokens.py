from __future__ import annotations

from pathlib import Path

import pytest

from grundlag_bus import AllowLists, ConfigurationError, StaticTokens, UnauthenticatedError

ONE, TWO = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.parametrize("text", [f"# people\n\n{ONE} ada\n  {TWO}   Bob B. \n", f'{{"{ONE}":"ada","{TWO}":"Bob B."}}'])
async def test_tokens_come_from_lines_or_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokens").write_text(text)
    tokens = StaticTokens.load(tmp_path / "tokens")
    assert [await tokens.user_id(token) for token in (ONE, TWO)] == ["ada", "Bob B."]
    for other in ("", ONE[:-1], ONE + "0", ONE.upper(), "\ud800"):
        with pytest.raises(UnauthenticatedError):
            await tokens.user_id(other)


def test_no_token_is_kept() -> None:
    assert ONE not in repr(vars(StaticTokens({ONE: "ada"})))


@pytest.mark.parametrize(
    "text",
    ["", "# no\n", ONE, f"{ONE} \n", f"{ONE} ada\n{ONE} bob", "short ada", "{", "{}", f'{{"{ONE}":1}}',
     f"{ONE}\x00 ada", f'{{"{ONE}":"a\\nb"}}', '{"' + "x" * 9000 + '":"ada"}'],
)  # fmt: skip
def test_a_file_that_knows_nobody_or_not_for_sure_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(ConfigurationError):
        StaticTokens.load(tmp_path / "tokens")


# --- allow-lists ------------------------------------------------------------------------------------------------------


def test_a_user_has_the_own_list_and_everybody_s() -> None:
    lists = AllowLists({"ada": ["calendar.*", "demo.add"], "*": ["*.read"]})
    asked = ["calendar.create", "demo.add", "demo.sub", "demo.read"]
    for user, allowed in {"ada": "yyny", "bob": "nnny", None: "nnny", "*": "nnny"}.items():
        assert "".join("y" if lists.allow(user, *each.split(".")) else "n" for each in asked) == allowed, user


def test_who_has_no_list_has_nothing() -> None:
    assert not AllowLists({}).allow("ada", "calendar", "create")


@pytest.mark.parametrize(
    "pattern", ["", "calendar", "calendar.", ".add", "cal*.add", "a.b.c", "calendar.#", "ca lendar.x"]
)
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError):
        AllowLists({"ada": [pattern]})


@pytest.mark.parametrize("text", ["", "[]", '{"ada":"demo.*"}', '{"ada":[1]}', '{"ada":["demo"]}'])
def test_a_file_that_is_no_lists_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "allow").write_text(text)
    with pytest.raises(ConfigurationError):
        AllowLists.load(tmp_path / "allow")
