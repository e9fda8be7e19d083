import pytest

from adaptkry.common.lookup import pick

TABLE = {"krylov": 1, "chebyshev": 2, "bernstein": 3}


@pytest.mark.parametrize("name", TABLE)
def test_a_known_name_gives_its_entry(name):
    assert pick(TABLE, name) == TABLE[name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("krilov", r"unknown basis 'krilov'\. Did you mean 'krylov'\? Known: bernstein, chebyshev, krylov\."),
        ("qqq", r"unknown basis 'qqq'\. Known: bernstein, chebyshev, krylov\."),
        (None, r"unknown basis None\. Known: "),
        (2, r"unknown basis 2\. Known: "),
    ],
)
def test_the_error_for_an_unknown_name_shows_similar_and_all_known_names(name, message):
    with pytest.raises(ValueError, match=message):
        pick(TABLE, name, "basis")


def test_several_similar_names_are_all_shown():
    with pytest.raises(ValueError, match=r"Did you mean 'bases' or 'basis'\?"):
        pick({"basis": 1, "bases": 2, "filter": 3}, "base")
