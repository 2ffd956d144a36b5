"""Loads the claim layer; everything else stands in properties/plugin.py."""

import pytest

pytest.register_assert_rewrite("properties")

pytest_plugins = ("properties.plugin",)
