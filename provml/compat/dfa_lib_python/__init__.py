"""The classes and calls of dfa-lib-python (DfAnalyzer, DNNProv, CNNProv, DLProv), recording into provml.

Change `dfa_lib_python` to `provml.compat.dfa_lib_python` in the imports of a script; the rest of the script stays as it
is. A dataflow is a workflow, and each execution of it is a run. Transformations that train, adapt, test, filter and
split data are recorded as such, any other as a step. Nothing is sent over a network; runs go to the usual home.
"""

from provml.compat.dfa_lib_python.attribute import Attribute
from provml.compat.dfa_lib_python.attribute_type import AttributeType
from provml.compat.dfa_lib_python.dataflow import Dataflow
from provml.compat.dfa_lib_python.dataset import DataSet
from provml.compat.dfa_lib_python.dependency import Dependency
from provml.compat.dfa_lib_python.element import Element
from provml.compat.dfa_lib_python.extractor import Extractor
from provml.compat.dfa_lib_python.extractor_cartridge import ExtractorCartridge
from provml.compat.dfa_lib_python.extractor_extension import ExtractorExtension
from provml.compat.dfa_lib_python.file import File
from provml.compat.dfa_lib_python.method_type import MethodType
from provml.compat.dfa_lib_python.performance import Performance
from provml.compat.dfa_lib_python.program import Program
from provml.compat.dfa_lib_python.raw_data_extractor import RawDataExtractor
from provml.compat.dfa_lib_python.raw_data_indexer import RawDataIndexer
from provml.compat.dfa_lib_python.set import Set
from provml.compat.dfa_lib_python.set_type import SetType
from provml.compat.dfa_lib_python.task import Task
from provml.compat.dfa_lib_python.task_status import TaskStatus
from provml.compat.dfa_lib_python.transformation import Transformation

__all__ = [
    "Attribute",
    "AttributeType",
    "DataSet",
    "Dataflow",
    "Dependency",
    "Element",
    "Extractor",
    "ExtractorCartridge",
    "ExtractorExtension",
    "File",
    "MethodType",
    "Performance",
    "Program",
    "RawDataExtractor",
    "RawDataIndexer",
    "Set",
    "SetType",
    "Task",
    "TaskStatus",
    "Transformation",
]
