"""One small trained run, shared by the tests of the verbs."""

import pytest

import zoo

QUICK = {
    "train.epochs": 2,
    "model.hparams.width": 32,
    "model.hparams.head_width": 32,
    "baseline": False,
    "threads": 1,
}


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def quick():
    return dict(QUICK)


@pytest.fixture(scope="session")
def freesolv(tmp_path_factory, quick):
    return zoo.train("freesolv", settings=quick, out=tmp_path_factory.mktemp("runs") / "freesolv")
