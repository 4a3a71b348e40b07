"""`dbt debug` with valid and invalid profiles."""

from __future__ import annotations

import pytest
import yaml
from dbt.tests.util import run_dbt_and_capture


class TestDebug:
    @pytest.fixture
    def debug(self, project, profiles_root):
        """Run `dbt debug` with changes to the valid profile, and return its success and its output."""
        path = f"{profiles_root}/profiles.yml"
        with open(path) as file:
            good = file.read()

        def run(**changes):
            profile = yaml.safe_load(good)
            target = profile["test"]["outputs"]["default"]
            for key, value in changes.items():
                target.pop(key, None)
                if value is not None:
                    target[key] = value
            with open(path, "w") as file:
                yaml.safe_dump(profile, file)
            return run_dbt_and_capture(["--debug", "debug"], expect_pass=None)

        yield run
        with open(path, "w") as file:
            file.write(good)

    def test_a_valid_profile_connects_and_hides_its_secrets(self, debug, warehouse):
        secrets = {"aws_access_key_id": "hush-id", "aws_secret_access_key": "hush-key"}
        passed, output = debug(storage_options=secrets)
        assert passed
        assert "All checks passed!" in output
        assert f"warehouse: {warehouse}" in output
        assert "hush" not in output

    def test_a_misspelt_key_is_the_only_error(self, debug, warehouse):
        passed, output = debug(warehouse=None, warehous=warehouse)
        assert not passed
        assert "The profile has an unknown key `warehous`. Did you mean `warehouse`?" in output
        assert "Traceback" not in output

    def test_a_warehouse_that_is_a_file_is_rejected(self, debug, tmp_path):
        (tmp_path / "file").write_text("")
        passed, output = debug(warehouse=str(tmp_path / "file"))
        assert not passed
        assert "is a file. Set `warehouse` to a folder" in output

    def test_method_existing_uses_the_session_of_the_process(self, debug):
        passed, output = debug(method="existing", spark_config=None)
        assert passed
        assert "method: existing" in output

    def test_a_method_of_dbt_spark_is_rejected_with_the_valid_methods(self, debug):
        passed, output = debug(method="thrift")
        assert not passed
        assert "`method` in the profile is 'thrift'. Set it to `session`" in output

    def test_connect_in_a_process_with_spark_is_rejected_without_its_token(self, debug):
        passed, output = debug(method="connect", host="spark.example.com", token="hush", spark_config=None)
        assert not passed
        assert "PySpark does not support an additional Spark Connect session" in output
        assert "hush" not in output

    def test_an_unknown_format_is_rejected(self, debug):
        passed, output = debug(file_format="parquet")
        assert not passed
        assert "`file_format` in the profile is 'parquet'. Set it to `delta` or `iceberg`." in output
