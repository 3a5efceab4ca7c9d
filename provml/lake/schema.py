"""The tables of a lake: their columns, types and meaning. A reader refuses a lake with a newer schema version."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow

SCHEMA_VERSION = 2
"""Raised by every change after which an older provml would read the tables wrongly."""


class Column(NamedTuple):
    """A column: its type (`text`, `integer`, `double`, `boolean` or `time`), and what it holds."""

    name: str
    type: str
    help: str


class Table(NamedTuple):
    """A table: what a row stands for, and its columns."""

    help: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def _table(description: str, columns: str) -> Table:
    """Return a table from lines of `name type help`."""
    parts = (line.split(maxsplit=2) for line in columns.splitlines() if line)
    return Table(description, tuple(Column(*part) for part in parts))


_VALUE = """
number double the value as a number; empty if it is none
text text the value as text, as the graph has it
type text the datatype of the value: a local name of XML Schema, `@language`, or an IRI
"""

TABLES: dict[str, Table] = {
    "runs": _table(
        "A run.",
        """
run text id of the run
iri text IRI of the run in the graph
name text name of the run, else that of its experiment
experiment text name of the experiment
model text name of the model that the run trains
study text name of the study
task text the learning task
person text who executes the run
parent text id of the run that it is a part of
status text FINISHED, FAILED, INTERRUPTED, PRUNED, KILLED, LOST or RUNNING, when it was written to the lake
started time start of the run; empty if it is not known
ended time end of the run
seconds double duration in seconds
error text type and message of the exception that ended the run
writers integer number of journals
events integer number of events in the journals
capture_errors integer number of errors inside provml while the run was recorded
lost_batches integer number of batches that could not be recorded
tags text tags of the run, joined with commas
problems integer number of lines of the journals that could not be read
""",
    ),
    "writers": _table(
        "A process that recorded a part of a run: one journal.",
        """
run text id of the run
writer text name of the journal
main boolean whether it recorded the run itself, not a part of it
rank integer rank in a distributed training
host text name of the machine
pid integer process id
started time start of the recording
ended time end of the recording
status text how the writer ended
""",
    ),
    "sections": _table(
        "A stage or step of a run, or a section of a stage: an epoch, a fold, a round.",
        """
run text id of the run
writer text name of the journal
section text IRI of the stage, step or section
stage text IRI of the stage that it belongs to; of a stage or step, its own
kind text kind of the stage or step: training, validation, evaluation, preparation, filter, split and so on
section_kind text kind of the section: epoch, fold, round or a user's own; empty for a stage or a step
trains boolean whether it is a section of a training in which the model learns
name text name of the step in the plan
model text name of the model that a learning stage aims at
idx integer index of the section in its stage
validates text IRI of the training's section that a section of a validation validates
started time start
ended time end
seconds double duration in seconds
status text how it ended; empty if it has not
error text type and message of the exception
batches integer number of batches of an epoch that has ended
mean_seconds double mean duration of its batches in seconds
least_seconds double least duration of its batches in seconds
most_seconds double greatest duration of its batches in seconds
""",
    ),
    "batches": _table(
        "A batch of a section.",
        """
run text id of the run
section text IRI of the section
idx integer index of the batch in its section
ended time end; empty if the batch did not end
seconds double duration in seconds
""",
    ),
    "batch_measures": _table(
        "A measure of a batch.",
        """
run text id of the run
section text IRI of the section
idx integer index of the batch in its section
name text name of the measure
"""
        + _VALUE.replace("as the graph has it", "as the graph has it; empty for a plain double"),
    ),
    "summaries": _table(
        "A measure over all batches of an epoch that has ended.",
        """
run text id of the run
section text IRI of the section
name text name of the measure
least double least value
greatest double greatest value
mean double mean value
last double value of the last batch
direction text `minimize` or `maximize`; empty if the name of the measure does not say
rank double the best value as a number of which more is better; empty if there is none
""",
    ),
    "measures": _table(
        "A measure of a stage or a section.",
        """
run text id of the run
section text IRI of the stage or section
stage text IRI of the stage
idx integer index of the section; empty for a measure of the whole stage
node text IRI of the value
name text name of the measure
"""
        + _VALUE
        + "rank double the value as a number of which more is better; empty for NaN and for what is no number",
    ),
    "settings": _table(
        "A hyperparameter or parameter, and the stage, step or section that it belongs to.",
        """
run text id of the run
section text IRI of the stage, step, section or adaptation
relation text `used` by a stage or step, `in_force` in a section, `produced` with a model, `adapted` during a stage
kind text `hyperparameter`, `parameter` (of a preparation), `model` or `adaptation`
node text IRI of the value
name text name of the hyperparameter or parameter
"""
        + _VALUE
        + """
layer boolean whether it belongs to a layer of the network
started time time of the adaptation
technique text technique of the adaptation
""",
    ),
    "consumption": _table(
        "An amount of energy that a run, a stage or a step took, or of emissions that it caused.",
        """
run text id of the run
section text IRI of the stage or step; of the run for all of it
node text IRI of the value
name text `energy` or `emissions`; of a component with its name, such as `energy of gpu`
component text part of the machine; empty for all of them
"""
        + _VALUE
        + """
unit text unit of the value: `kW.h` or `kg`
metered boolean whether all of it was read from meters
method text how it was determined
""",
    ),
    "data": _table(
        "Data or a model, as a run describes it; one row for each name, content, alternate and path.",
        """
run text id of the run
data text IRI of the data
kind text `dataset`, `model`, `features`, `file` or `artifact`
name text name
content text IRI of the content that this run's entity is a specialization of
alternate text IRI of the content of a file in which a model was saved
sha256 text SHA-256 of the content
size integer size in bytes
path text path of the file
""",
    ),
    "flows": _table(
        "The use or production of data by a stage, a step or a section.",
        """
run text id of the run
section text IRI of the stage, step or section; of the run, if the run itself produced the data
stage text IRI of the stage or step
data text IRI of the data
relation text `used`, `produced`, `learned` (by a training), `tested` (by an evaluation) or `evaluated` (a model)
role text role of data that was used: raw, training, validation, test or a user's own
""",
    ),
    "lineage": _table(
        "What is behind data, steps and evaluations, over all runs: a closed relation, so that no question recurses.",
        """
kind text `made_by`, `built_on`, `origin` or `evaluated`
ref text IRI of data (`made_by`), a step (`built_on`), the content of test data (`origin`) or an evaluation
behind text IRI of a step behind it, of data (`origin`), or of the training of the evaluated model
direct boolean whether there is nothing in between
""",
    ),
}
"""All tables. `lineage` is derived from all runs; the rows of the others follow from one run each."""

DERIVED = "lineage"


def arrow_schema(name: str) -> pyarrow.Schema:
    """Return the schema of a table for pyarrow."""
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "integer": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in TABLES[name].columns])
