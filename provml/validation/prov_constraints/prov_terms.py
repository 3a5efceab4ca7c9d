"""PROV-O: the kinds of statements with their slots, and the properties and classes that express them."""

from __future__ import annotations

from dataclasses import dataclass

REQUIRED, UNKNOWN, EMPTY_SLOT = "required", "unknown", "empty"
"""What an omitted slot means: the statement is invalid; its value is unknown; it has no value (`-` in PROV-N)."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of a statement: its noun, its property, the type of its values, and what it means if it is omitted."""

    noun: str
    property: str
    type: str
    if_omitted: str = UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of statement: its first slot is the subject, its second the influencer.

    `preposition` links the noun to the subject: the generation *of* an entity.
    """

    noun: str
    slots: tuple[Slot, ...]
    preposition: str = "of"


ENTITY, ACTIVITY, AGENT, OTHER = "entity", "activity", "agent", ""
_TIME = Slot("time", "atTime", OTHER)

GENERATION = Kind("generation", (Slot("entity", "", ENTITY, REQUIRED), Slot("activity", "activity", ACTIVITY), _TIME))
INVALIDATION = Kind("invalidation", GENERATION.slots)
USAGE = Kind("usage", (Slot("activity", "", ACTIVITY, REQUIRED), Slot("entity", "entity", ENTITY), _TIME), "by")
START = Kind(
    "start",
    (
        Slot("activity", "", ACTIVITY, REQUIRED),
        Slot("trigger", "entity", ENTITY),
        Slot("starter", "hadActivity", ACTIVITY),
        _TIME,
    ),
)
END = Kind("end", (*START.slots[:2], Slot("ender", "hadActivity", ACTIVITY), _TIME))
COMMUNICATION = Kind(
    "communication", (Slot("informed", "", ACTIVITY, REQUIRED), Slot("informant", "activity", ACTIVITY, REQUIRED))
)
DERIVATION = Kind(
    "derivation",
    (
        Slot("derived entity", "", ENTITY, REQUIRED),
        Slot("source entity", "entity", ENTITY, REQUIRED),
        Slot("activity", "hadActivity", ACTIVITY, EMPTY_SLOT),
        Slot("generation", "hadGeneration", OTHER, EMPTY_SLOT),
        Slot("usage", "hadUsage", OTHER, EMPTY_SLOT),
    ),
)
ATTRIBUTION = Kind("attribution", (Slot("entity", "", ENTITY, REQUIRED), Slot("agent", "agent", AGENT, REQUIRED)))
ASSOCIATION = Kind(
    "association",
    (
        Slot("activity", "", ACTIVITY, REQUIRED),
        Slot("agent", "agent", AGENT),
        Slot("plan", "hadPlan", ENTITY, EMPTY_SLOT),
    ),
)
DELEGATION = Kind(
    "delegation",
    (
        Slot("delegate", "", AGENT, REQUIRED),
        Slot("responsible agent", "agent", AGENT, REQUIRED),
        Slot("activity", "hadActivity", ACTIVITY),
    ),
    "by",
)
INFLUENCE = Kind(
    "influence", (Slot("influencee", "", OTHER, REQUIRED), Slot("influencer", "influencer", OTHER, REQUIRED)), "on"
)
MENTION = Kind(
    "mention",
    (
        Slot("specific entity", "", ENTITY, REQUIRED),
        Slot("general entity", "entity", ENTITY, REQUIRED),
        Slot("bundle", "bundle", ENTITY, REQUIRED),
    ),
    "by",
)
SPECIALIZATION = Kind(
    "specialization",
    (Slot("specific entity", "", ENTITY, REQUIRED), Slot("general entity", "", ENTITY, REQUIRED)),
    "by",
)
ALTERNATE = Kind("alternate", (Slot("first entity", "", ENTITY, REQUIRED), Slot("second entity", "", ENTITY, REQUIRED)))
MEMBERSHIP = Kind("membership", (Slot("collection", "", ENTITY, REQUIRED), Slot("member", "", ENTITY, REQUIRED)), "in")
ACTIVITY_TIMES = Kind("activity", (Slot("start time", "", OTHER), Slot("end time", "", OTHER)))

EVENTS = (GENERATION, INVALIDATION, USAGE, START, END)
DISJOINT = (*EVENTS, COMMUNICATION, ATTRIBUTION, ASSOCIATION, DELEGATION)
"""The kinds that cannot share an identifier; derivations and influences can share one with others."""

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

EMPTY_COLLECTIONS = frozenset({"EmptyCollection", "EmptyDictionary"})

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
"""The short forms: a property from the subject to the influencer. `wasInfluencedBy` has no constraints."""

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
"""The inverses of properties, with the names of PROV-O."""

PARTS = frozenset(slot.property for kind in CLASSES.values() for slot in kind.slots) - {""}
"""The properties of qualified statements."""

TIMES = {
    "startedAtTime": (ACTIVITY_TIMES, 0),
    "endedAtTime": (ACTIVITY_TIMES, 1),
    "generatedAtTime": (GENERATION, 2),
    "invalidatedAtTime": (INVALIDATION, 2),
}
"""The time properties of elements, with the kind of statement and the slot."""

PAIRS = {"specializationOf": "specializations", "alternateOf": "alternates", "hadMember": "members"}
"""The properties between two entities without a qualified form, with the attribute of `Document`."""

MENTIONS = {"mentionOf": "entity", "asInBundle": "bundle"}
"""The two properties of PROV-Links for a mention, and the slot of each."""
