"""The write side: runs, stages, epochs and batches, recorded as events in a journal.

run                   `Run` and `record`: what users call
stages, batches       the sections of a run
frames                inspection of the calling code: hidden arguments, and how a loop was left
step_decorator        functions as steps
core                  the part of a run that sections and captures use
settings              types of the settings
safety                keeps capture errors away from the training
writer                appends events; its parts are journal_target, error_counter and disk_sync
context               state that all runs of a process share; uses inherit and exit_watch
exit_status           the status of a section or a process by the exception that left it
data, data_registry   references to data, and the registry of a run's data
encoding, hashing     values and digests for the journal
environment, seeds    machine, process, software and code version
ids                   ids of runs and writers
validate_on_finish    validation at the end of a run
display               HTML for notebooks
"""
