"""The APIs of earlier systems on top of provml: their scripts record into provml after a change of an import."""
