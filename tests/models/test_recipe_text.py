import pytest

from adaptkry.models.recipe_text import from_toml, merge, parse


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("hidden=128", ("hidden", 128)),
        (" mlp_lr = 5e-2", ("mlp_lr", 0.05)),
        ("batch_norm=True", ("batch_norm", True)),
        ("combine_hops=concat", ("combine_hops", "concat")),
        ("taus=0.5, 1", ("taus", (0.5, 1.0))),
        ("directions=out", ("directions", ("out",))),
    ],
)
def test_text_is_parsed_as_the_type_of_the_setting(text, setting):
    assert parse(text) == setting


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hidden", "name=value, such as hidden=128; got 'hidden'"),
        ("hiden=3", "unknown setting 'hiden'. Did you mean 'hidden'"),
        ("hidden=3.5", "hidden must be a whole number; got '3.5'"),
        ("mlp_lr=fast", "mlp_lr must be a number; got 'fast'"),
        ("mlp_lr=nan", "mlp_lr must be a number; got 'nan'"),
        ("batch_norm=maybe", "batch_norm must be true or false; got 'maybe'"),
        ("taus=0.5,,1", "taus must be a number, or several"),
        ("method=mlp", "unknown setting 'method'"),
    ],
)
def test_invalid_settings_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_options_and_settings_are_merged_and_must_not_repeat_each_other():
    assert merge({"degree": 3, "taus": [1.0], "epochs": None}, ["hidden=8"]) == {
        "degree": 3,
        "taus": (1.0,),
        "hidden": 8,
    }
    with pytest.raises(ValueError, match="got degree twice"):
        merge({"degree": 3}, ["degree=4"])


@pytest.mark.parametrize("content", [b"hidden = " + b"[" * 100_000, b"hidden = ", b"\xff", b"hidden = 1\nhidden = 2\n"])
def test_a_file_that_is_no_toml_is_refused_by_its_name(tmp_path, content):
    (tmp_path / "s.toml").write_bytes(content)
    with pytest.raises(ValueError, match=r"s\.toml must hold settings in TOML; got a file that cannot be read"):
        from_toml(tmp_path / "s.toml")
