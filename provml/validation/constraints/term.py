"""What PROV-O's terms say: the kinds of statements with their slots, and the properties and classes that make them."""

from __future__ import annotations

from dataclasses import dataclass

PROV = "http://www.w3.org/ns/prov#"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

MUST, MAY, NONE = "must", "may", "none"
"""What an empty slot means: the statement is broken; something unknown fills it; there is nothing (PROV-N's `-`)."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One place of a statement: the word for it, the property that fills it, what it makes of a node, and its need."""

    word: str
    property: str
    sort: str
    need: str = MAY


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of statement: its first slot is the subject, its second the influencer."""

    word: str
    slots: tuple[Slot, ...]
    by: str = "of"


ENTITY, ACTIVITY, AGENT, OTHER = "entity", "activity", "agent", ""
_TIME = Slot("time", "atTime", OTHER)

GENERATION = Kind("generation", (Slot("entity", "", ENTITY, MUST), Slot("activity", "activity", ACTIVITY), _TIME))
INVALIDATION = Kind("invalidation", GENERATION.slots)
USAGE = Kind("usage", (Slot("activity", "", ACTIVITY, MUST), Slot("entity", "entity", ENTITY), _TIME), "by")
START = Kind(
    "start",
    (
        Slot("activity", "", ACTIVITY, MUST),
        Slot("trigger", "entity", ENTITY),
        Slot("starter", "hadActivity", ACTIVITY),
        _TIME,
    ),
)
END = Kind("end", (*START.slots[:2], Slot("ender", "hadActivity", ACTIVITY), _TIME))
COMMUNICATION = Kind(
    "communication", (Slot("informed", "", ACTIVITY, MUST), Slot("informant", "activity", ACTIVITY, MUST))
)
DERIVATION = Kind(
    "derivation",
    (
        Slot("derived entity", "", ENTITY, MUST),
        Slot("source entity", "entity", ENTITY, MUST),
        Slot("activity", "hadActivity", ACTIVITY, NONE),
        Slot("generation", "hadGeneration", OTHER, NONE),
        Slot("usage", "hadUsage", OTHER, NONE),
    ),
)
ATTRIBUTION = Kind("attribution", (Slot("entity", "", ENTITY, MUST), Slot("agent", "agent", AGENT, MUST)))
ASSOCIATION = Kind(
    "association",
    (Slot("activity", "", ACTIVITY, MUST), Slot("agent", "agent", AGENT), Slot("plan", "hadPlan", ENTITY, NONE)),
)
DELEGATION = Kind(
    "delegation",
    (
        Slot("delegate", "", AGENT, MUST),
        Slot("responsible agent", "agent", AGENT, MUST),
        Slot("activity", "hadActivity", ACTIVITY),
    ),
    "by",
)
INFLUENCE = Kind(
    "influence", (Slot("influencee", "", OTHER, MUST), Slot("influencer", "influencer", OTHER, MUST)), "on"
)
MENTION = Kind(
    "mention",
    (
        Slot("specific entity", "", ENTITY, MUST),
        Slot("general entity", "entity", ENTITY, MUST),
        Slot("bundle", "bundle", ENTITY, MUST),
    ),
    "by",
)
ACTIVITY_TIMES = Kind("activity", (Slot("start time", "", OTHER), Slot("end time", "", OTHER)))

EVENTS = (GENERATION, INVALIDATION, USAGE, START, END)
DISJOINT = (*EVENTS, COMMUNICATION, ATTRIBUTION, ASSOCIATION, DELEGATION)
"""The kinds of which no two share an identifier; a derivation and an influence may go with others."""

CLASSES = {
    "Generation": GENERATION,
    "Invalidation": INVALIDATION,
    "Usage": USAGE,
    "Start": START,
    "End": END,
    "Communication": COMMUNICATION,
    "Derivation": DERIVATION,
    "Revision": DERIVATION,
    "Quotation": DERIVATION,
    "PrimarySource": DERIVATION,
    "Attribution": ATTRIBUTION,
    "Association": ASSOCIATION,
    "Delegation": DELEGATION,
    "Influence": INFLUENCE,
    "EntityInfluence": INFLUENCE,
    "ActivityInfluence": INFLUENCE,
    "AgentInfluence": INFLUENCE,
    "Mention": MENTION,
}
"""The classes of qualified statements."""

QUALIFIED = {f"qualified{name}": kind for name, kind in CLASSES.items() if kind is not INFLUENCE or name == "Influence"}
"""The properties from a subject to a qualified statement."""

ELEMENTS = {
    "Entity": ENTITY,
    "Plan": ENTITY,
    "Collection": ENTITY,
    "EmptyCollection": ENTITY,
    "Bundle": ENTITY,
    "Dictionary": ENTITY,
    "EmptyDictionary": ENTITY,
    "Activity": ACTIVITY,
    "Agent": AGENT,
    "Person": AGENT,
    "Organization": AGENT,
    "SoftwareAgent": AGENT,
}
"""The classes that declare an element."""

EMPTY = frozenset({"EmptyCollection", "EmptyDictionary"})

DIRECT = {
    "wasGeneratedBy": GENERATION,
    "wasInvalidatedBy": INVALIDATION,
    "used": USAGE,
    "wasStartedBy": START,
    "wasEndedBy": END,
    "wasInformedBy": COMMUNICATION,
    "wasDerivedFrom": DERIVATION,
    "wasRevisionOf": DERIVATION,
    "wasQuotedFrom": DERIVATION,
    "hadPrimarySource": DERIVATION,
    "derivedByInsertionFrom": DERIVATION,
    "derivedByRemovalFrom": DERIVATION,
    "wasAttributedTo": ATTRIBUTION,
    "wasAssociatedWith": ASSOCIATION,
    "actedOnBehalfOf": DELEGATION,
}
"""The short forms: a property from the subject to the influencer. `wasInfluencedBy` alone constrains nothing."""

INVERSES = {
    "generated": "wasGeneratedBy",
    "invalidated": "wasInvalidatedBy",
    "wasUsedBy": "used",
    "started": "wasStartedBy",
    "ended": "wasEndedBy",
    "informed": "wasInformedBy",
    "hadDerivation": "wasDerivedFrom",
    "hadRevision": "wasRevisionOf",
    "quotedAs": "wasQuotedFrom",
    "wasPrimarySourceOf": "hadPrimarySource",
    "contributed": "wasAttributedTo",
    "wasAssociateFor": "wasAssociatedWith",
    "hadDelegate": "actedOnBehalfOf",
    "generalizationOf": "specializationOf",
    "wasMemberOf": "hadMember",
    "entityOfInfluence": "entity",
    "activityOfInfluence": "activity",
    "agentOfInfluence": "agent",
    "hadInfluence": "influencer",
    "wasActivityOfInfluence": "hadActivity",
    "wasPlanOf": "hadPlan",
    "generatedAsDerivation": "hadGeneration",
    "wasUsedInDerivation": "hadUsage",
    "qualifiedUsingActivity": "qualifiedUsage",
    "qualifiedSourceOf": "qualifiedPrimarySource",
    "revisedEntity": "qualifiedRevision",
    "qualifiedGenerationOf": "qualifiedGeneration",
    "qualifiedInvalidationOf": "qualifiedInvalidation",
    "qualifiedStartOf": "qualifiedStart",
    "qualifiedEndOf": "qualifiedEnd",
    "qualifiedCommunicationOf": "qualifiedCommunication",
    "qualifiedDerivationOf": "qualifiedDerivation",
    "qualifiedQuotationOf": "qualifiedQuotation",
    "qualifiedAttributionOf": "qualifiedAttribution",
    "qualifiedAssociationOf": "qualifiedAssociation",
    "qualifiedDelegationOf": "qualifiedDelegation",
    "qualifiedInfluenceOf": "qualifiedInfluence",
}
"""The names that PROV-O gives to the other direction of its properties."""

PARTS = frozenset(slot.property for kind in CLASSES.values() for slot in kind.slots) - {""}
"""The properties of qualified statements."""

TIMES = {
    "startedAtTime": (ACTIVITY_TIMES, 0),
    "endedAtTime": (ACTIVITY_TIMES, 1),
    "generatedAtTime": (GENERATION, 2),
    "invalidatedAtTime": (INVALIDATION, 2),
}
"""The times of elements, and the slot that each fills."""

PAIRS = {"specializationOf": "specializations", "alternateOf": "alternates", "hadMember": "members"}
"""The properties between two entities that have no qualified form, and what a document calls them."""

MENTIONS = {"mentionOf": "entity", "asInBundle": "bundle"}
"""The two properties of PROV-Links that make a mention, and the part that each tells."""
