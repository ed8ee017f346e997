"""Overrides that a sweep adds to its command line."""

import pytest
from omegaconf import OmegaConf

from forecast.common.errors import InputError
from forecast.training.sweep.overrides import for_ray


def test_ray_starts_without_a_network_unless_a_cluster_is_named() -> None:
    config = OmegaConf.create({"hydra": {"launcher": {"ray": {"init": {"address": None}, "remote": {}}}}})
    start = "+hydra.launcher.ray.init."
    assert for_ray(config) == [f"{start}_node_ip_address=127.0.0.1", f"{start}include_dashboard=false"]
    config.hydra.launcher.ray.init.include_dashboard = True
    assert for_ray(config) == [f"{start}_node_ip_address=127.0.0.1"]
    config.hydra.launcher.ray.init.address = "auto"
    assert for_ray(config) == []
    assert for_ray(OmegaConf.create({"hydra": {"launcher": {"_target_": "x"}}})) == []


def test_jobs_that_ray_could_never_start_are_refused() -> None:
    config = OmegaConf.create({"hydra": {"launcher": {"ray": {"init": {"num_cpus": 2}, "remote": {"num_cpus": 4}}}}})
    with pytest.raises(InputError, match="num_cpus=4: the cluster has 2, and the jobs would wait for ever"):
        for_ray(config)
