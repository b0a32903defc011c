"""Settings: reading, updating, overriding in one thread, and the key for caches."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from mgefn.config import Config, config
from mgefn.errors import ArgumentError


@pytest.fixture(autouse=True)
def restored():
    names = [name for name in Config.__annotations__ if name not in ("trace_key", "TRACED")]
    before = {name: getattr(config, name) for name in names}
    yield
    for name, value in before.items():
        config.update(name, value)


def in_thread(function):
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


@pytest.mark.parametrize("name", ["enable_x64", "jax_enable_x64"])
def test_update_and_assignment_change_every_thread(name):
    config.update(name, True)
    assert config.enable_x64 is True
    assert in_thread(lambda: config.jax_enable_x64) is True
    config.enable_x64 = False
    assert in_thread(lambda: config.enable_x64) is False
    setattr(config, name, True)
    assert config.enable_x64 is True


def test_override_is_of_one_thread_and_nests():
    before = config.trace_key
    with config.override(zero_annihilates=False) as inside:
        assert inside is config
        assert not config.zero_annihilates
        assert in_thread(lambda: config.zero_annihilates)
        assert in_thread(lambda: config.trace_key) == before
        with config.override(zero_annihilates=True, jax_disable_jit=True):
            assert config.zero_annihilates
            assert config.disable_jit
        assert not config.zero_annihilates
        assert not config.disable_jit
    assert config.zero_annihilates
    assert config.trace_key == before


def test_override_ends_on_an_exception():
    with pytest.raises(KeyboardInterrupt, match="stop"), config.override(disable_jit=True):
        raise KeyboardInterrupt("stop")
    assert not config.disable_jit


def test_overrides_left_out_of_order():
    first, second = config.override(enable_x64=True), config.override(enable_x64=False)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert config.enable_x64 is False
    second.__exit__(None, None, None)
    config.enable_x64 = True
    assert config.enable_x64 is True


def test_override_closed_by_another_thread_restores_the_thread_that_entered():
    override = config.override(enable_x64=True)
    override.__enter__()
    in_thread(lambda: override.__exit__(None, None, None))
    assert config.enable_x64 is False


@pytest.mark.parametrize("name", Config.TRACED)
def test_trace_key_follows_each_traced_setting(name):
    before = config.trace_key
    assert hash(before) == hash(config.trace_key)
    value = getattr(config, name)
    other = {"llvm": "numpy", "numpy": "llvm"}[value] if name == "jit_backend" else not value
    with config.override(**{name: other}):
        assert config.trace_key != before
    config.update(name, other)
    assert config.trace_key != before
    config.update(name, value)
    assert config.trace_key is before  # one object per value


def test_trace_key_ignores_what_changes_no_program():
    before = config.trace_key
    config.traceback = "full"
    assert config.trace_key is before


def test_trace_key_in_an_override_follows_updates_by_other_threads():
    with config.override(zero_annihilates=False):
        before = config.trace_key
        in_thread(lambda: config.update("enable_x64", True))
        assert config.enable_x64
        assert config.trace_key != before
        expected = tuple(getattr(config, name) for name in Config.TRACED)
        assert config.trace_key == expected
        in_thread(lambda: config.update("zero_annihilates", True))
        assert not config.zero_annihilates
    assert config.trace_key == tuple(getattr(config, name) for name in Config.TRACED)


def test_trace_key_agrees_under_contention():
    stop = threading.Event()

    def toggle():
        while not stop.is_set():
            config.enable_x64 = not config.enable_x64

    def override():
        agreed = True
        for _ in range(300):
            with config.override(zero_annihilates=False, enable_x64=True):
                agreed &= config.trace_key[:2] == (True, False)
        return agreed

    toggler = threading.Thread(target=toggle)
    toggler.start()
    try:
        assert in_thread(override)
    finally:
        stop.set()
        toggler.join()
    assert config.trace_key == tuple(getattr(config, name) for name in Config.TRACED)


@pytest.mark.parametrize(
    "change",
    [
        lambda: config.update("enable_x46", True),
        lambda: setattr(config, "enable_x46", True),
        lambda: config.override(enable_x46=True),
        lambda: config.update("trace_key", ()),
        lambda: config.update(3, True),
    ],
)
def test_unknown_name_lists_the_settings(change):
    with pytest.raises(ArgumentError, match=r"needs the name of a setting.*enable_x64, zero_annih"):
        change()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("enable_x64", 1, "enable_x64 must be False or True, got 1"),
        ("disable_jit", None, "disable_jit must be False or True, got None"),
        ("traceback", "short", "traceback must be 'user' or 'full', got 'short'"),
    ],
)
def test_wrong_value(name, value, message):
    with pytest.raises(ArgumentError, match=message):
        config.update(name, value)
    with pytest.raises(ArgumentError, match=message):
        config.override(**{name: value})


def test_reading_an_unknown_name_and_deleting():
    with pytest.raises(AttributeError, match="enable_x46"):
        _ = config.enable_x46
    with pytest.raises(ArgumentError, match="cannot be deleted"):
        del config.enable_x64


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", "from mgefn.config import config;" + code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_environment():
    done = run(
        "print(config, config.trace_key[0])",
        MGEFN_ENABLE_X64="1",
        MGEFN_TRACEBACK="full",
        MGEFN_CHECK_JAXPRS="false",
    )
    assert "enable_x64=True" in done.stdout
    assert "traceback='full'" in done.stdout
    assert "check_jaxprs=False" in done.stdout
    assert done.stdout.rstrip().endswith("True")


def test_environment_with_a_wrong_value():
    done = run("pass", MGEFN_ENABLE_X64="maybe")
    assert "ArgumentError: environment variable MGEFN_ENABLE_X64" in done.stderr


def test_the_module_updates_and_reads_too() -> None:
    from mgefn.config import read, update

    before = read("jax_check_jaxprs")
    try:
        update("check_jaxprs", not before)
        assert read("check_jaxprs") is (not before)
    finally:
        update("check_jaxprs", before)
