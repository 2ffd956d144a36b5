"""From records to one view of them to one offline page: ``python -m properties.report``."""
