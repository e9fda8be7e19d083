import pytest

from adaptkry.models import recipe_text as settings


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("hidden=128", ("hidden", 128)),
        (" mlp_lr = 5e-2", ("mlp_lr", 0.05)),
        ("batch_norm=True", ("batch_norm", True)),
        ("combine=concat", ("combine", "concat")),
        ("taus=0.5, 1", ("taus", (0.5, 1.0))),
        ("directions=out", ("directions", ("out",))),
    ],
)
def test_text_is_read_as_the_kind_of_value_a_setting_holds(text, setting):
    assert settings.read(text) == setting


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hidden", "name=value, such as hidden=128, but 'hidden' came"),
        ("hiden=3", "unknown setting 'hiden'. Did you mean 'hidden'"),
        ("hidden=3.5", "hidden wants a whole number, but '3.5' came"),
        ("mlp_lr=fast", "mlp_lr wants a number, but 'fast' came"),
        ("mlp_lr=nan", "mlp_lr wants a number, but 'nan' came"),
        ("batch_norm=maybe", "batch_norm wants true or false, but 'maybe' came"),
        ("taus=0.5,,1", "taus wants a number"),
        ("method=mlp", "unknown setting 'method'"),
    ],
)
def test_text_that_is_no_setting_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        settings.read(text)


def test_options_and_settings_join_and_never_contradict_each_other():
    assert settings.merged({"degree": 3, "taus": [1.0], "epochs": None}, ["hidden=8"]) == {
        "degree": 3,
        "taus": (1.0,),
        "hidden": 8,
    }
    with pytest.raises(ValueError, match="degree came twice"):
        settings.merged({"degree": 3}, ["degree=4"])
