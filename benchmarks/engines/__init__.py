"""The engines that are measured."""
