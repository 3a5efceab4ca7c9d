"""For every rule of PROV-CONSTRAINTS a valid and an invalid document in Turtle.

Definitions and inferences cannot be violated: their documents are valid or not because of the statements they add.
"""

from __future__ import annotations

HEAD = """@prefix prov: <http://www.w3.org/ns/prov#> . @prefix : <http://example.org/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""

FIRST, SECOND = '"2020-01-01T01:00:00Z"^^xsd:dateTime', '"2020-01-01T02:00:00Z"^^xsd:dateTime'

CASES: dict[int, tuple[str, str, tuple[int, ...]]] = {
    1: (
        "An unnamed generation is the named one of the same activity.",
        f""":e prov:wasGeneratedBy :a ; prov:qualifiedGeneration :g . :g prov:activity :a ; prov:atTime {FIRST} .
        ---
        :e prov:qualifiedGeneration [ prov:activity :a ; prov:atTime {SECOND} ], :g .
        :g prov:activity :a ; prov:atTime {FIRST} .""",
        (23, 24),
    ),
    2: (
        "Roles, places and labels are attributes and clash with nothing.",
        """:a prov:qualifiedUsage :u . :u prov:entity :e ; prov:hadRole :r, :s ; prov:atLocation :p, :q .
        :r a prov:Role . :p a prov:Location .
        ---
        :a prov:qualifiedUsage :u . :u prov:entity :e, :f ; prov:hadRole :r .""",
        (23,),
    ),
    3: (
        "A short form states its two ends only, less than a qualified form.",
        """:e prov:wasDerivedFrom :f . :f prov:wasDerivedFrom :h .
        ---
        :e a prov:Entity ; prov:wasDerivedFrom :f . :f a prov:Entity ; prov:wasDerivedFrom :e .""",
        (42,),
    ),
    4: (
        "Omitted parts of a start are unknown, but the activity of a derivation implies a generation.",
        """:a prov:qualifiedStart :s, [ prov:entity :e ] . :s a prov:Start ; prov:hadActivity :b .
        ---
        :e prov:qualifiedDerivation [ prov:entity :f ; prov:hadActivity :a ] ; prov:qualifiedGeneration :g .
        :f prov:specializationOf :e ; prov:qualifiedGeneration [ a prov:Generation ] . :g prov:activity :b .""",
        (42, 45),
    ),
    5: (
        "A communication has an unnamed entity.",
        ":a prov:wasInformedBy :b . :b prov:wasInformedBy :a .\n---\n:a prov:wasInformedBy :b . :b a prov:Entity .",
        (50, 55),
    ),
    6: (
        "An activity that uses an entity was informed by the one that generated it, which is not a cycle.",
        """:e prov:wasGeneratedBy :a . :b prov:used :e . :f prov:wasGeneratedBy :b . :a prov:used :f .
        ---
        :e prov:wasGeneratedBy :a . :b prov:used :e . :b a prov:Plan .""",
        (50, 55),
    ),
    7: (
        "Declared entities are generated; undeclared ones need not be.",
        """:e prov:wasDerivedFrom :f . :f prov:wasDerivedFrom :e .
        ---
        :e a prov:Entity ; prov:wasDerivedFrom :e .""",
        (42,),
    ),
    8: (
        "An activity's times are those of its start and end.",
        f""":a prov:startedAtTime {FIRST} ; prov:qualifiedStart [ prov:atTime {FIRST} ] .
        ---
        :a a prov:Activity ; prov:qualifiedStart [ prov:atTime {FIRST} ; prov:hadActivity :b ],
            [ prov:atTime {SECOND} ; prov:hadActivity :c ] .""",
        (28,),
    ),
    9: (
        "The starter generated the trigger.",
        """:a prov:qualifiedStart [ prov:entity :e ; prov:hadActivity :b ] . :e prov:wasGeneratedBy :b .
        ---
        :a prov:qualifiedStart [ prov:entity :e ; prov:hadActivity :b ] . :e prov:wasDerivedFrom :e .""",
        (42,),
    ),
    10: (
        "The ender generated the trigger.",
        """:a prov:qualifiedEnd [ prov:entity :e ; prov:hadActivity :b ] . :e prov:wasGeneratedBy :b .
        ---
        :a prov:qualifiedEnd [ prov:entity :e ; prov:hadActivity :b ] . :e prov:wasDerivedFrom :e .""",
        (42,),
    ),
    11: (
        "The activity of a derivation used its source and generated its result.",
        """:e prov:qualifiedDerivation [ prov:entity :f ; prov:hadActivity :a ; prov:hadUsage :u ] .
        :a prov:qualifiedUsage :u . :u prov:entity :f .
        ---
        :e prov:qualifiedDerivation [ prov:entity :f ; prov:hadActivity :a ; prov:hadUsage :u ] .
        :b prov:qualifiedUsage :u . :u prov:entity :f .""",
        (23,),
    ),
    12: (
        "A revision is an alternate, and a derivation.",
        """:e a prov:Entity ; prov:wasRevisionOf :f . :f prov:alternateOf :e ; a prov:Entity .
        ---
        :e a prov:Entity ; prov:wasRevisionOf :f . :f a prov:Entity ; prov:specializationOf :e .""",
        (42, 45),
    ),
    13: (
        "An attributed entity was generated.",
        """:e prov:wasAttributedTo :ag . :ag a prov:Person .
        ---
        :e prov:wasAttributedTo :ag ; prov:wasDerivedFrom :e .""",
        (42,),
    ),
    14: (
        "Both agents of a delegation are associated with its activity.",
        """:x prov:qualifiedDelegation [ prov:agent :y ; prov:hadActivity :a ] . :x a prov:SoftwareAgent .
        ---
        :x prov:qualifiedDelegation [ prov:agent :y ; prov:hadActivity :a ] . :a a prov:Entity .""",
        (50, 55),
    ),
    15: (
        "A statement is an influence with the same identifier, influencer and influencee.",
        """:e prov:qualifiedGeneration :g ; prov:qualifiedInfluence :g ; prov:wasInfluencedBy :a .
        :g a prov:Influence, prov:Generation ; prov:activity :a ; prov:influencer :a .
        ---
        :e prov:qualifiedGeneration :g . :f prov:qualifiedInfluence :g . :g prov:activity :a ; prov:influencer :a .""",
        (23,),
    ),
    16: (
        "An entity is an alternate of itself.",
        ":e a prov:Entity ; prov:alternateOf :e .\n---\n:e a prov:Activity ; prov:alternateOf :e .",
        (50, 55),
    ),
    17: (
        "Alternates of alternates are alternates.",
        ":e prov:alternateOf :f . :f prov:alternateOf :h .\n---\n:e prov:alternateOf :f . :f prov:used :h .",
        (50, 55),
    ),
    18: (
        "Alternates are alternates of each other.",
        ":e prov:alternateOf :f . :f prov:alternateOf :e .\n---\n:e prov:alternateOf :f . :f prov:wasStartedBy :e .",
        (50, 55),
    ),
    19: (
        "Specialization is transitive, also through an entity without a generation.",
        """:e prov:specializationOf :f ; prov:generatedAtTime [] . :f prov:specializationOf :h .
        ---
        :e prov:specializationOf :f ; prov:generatedAtTime [] . :f prov:specializationOf :h .
        :h prov:generatedAtTime [] ; prov:wasDerivedFrom :e .""",
        (42, 45),
    ),
    20: (
        "A specialization is an alternate.",
        """:e prov:specializationOf :f . :f prov:alternateOf :e .
        ---
        :e prov:specializationOf :f . :f a prov:Activity .""",
        (50, 55),
    ),
    21: (
        "A specialization of an empty collection is an empty collection.",
        """:e prov:specializationOf :f ; prov:hadMember :x . :f a prov:Collection .
        ---
        :e prov:specializationOf :f ; prov:hadMember :x . :f a prov:EmptyCollection .""",
        (56,),
    ),
    22: (
        "An activity has one start time, in any notation.",
        f""":a prov:startedAtTime {FIRST}, "2020-01-01T02:00:00.0+01:00"^^xsd:dateTime .
        ---
        :a prov:startedAtTime {FIRST}, {SECOND} .""",
        (22,),
    ),
    23: (
        "An identifier denotes one association; unknown parts are unified with known ones.",
        """:a prov:qualifiedAssociation :o . :o prov:agent :ag, [] ; prov:hadPlan :p .
        ---
        :a prov:qualifiedAssociation :o . :o prov:agent :ag ; prov:hadPlan :p, :q .""",
        (23,),
    ),
    24: (
        "An activity generates an entity once.",
        """:e prov:qualifiedGeneration :g, [ prov:activity :a ] . :g prov:activity :a .
        ---
        :e prov:qualifiedGeneration :g, :h . :g prov:activity :a . :h prov:activity :a .""",
        (24,),
    ),
    25: (
        "An activity invalidates an entity once.",
        """:e prov:qualifiedInvalidation :g, :h . :g prov:activity :a . :h prov:activity :b .
        ---
        :e prov:qualifiedInvalidation :g, :h . :g prov:activity :a . :h prov:activity :a .""",
        (25,),
    ),
    26: (
        "An activity starts another once.",
        """:a prov:qualifiedStart :s, [ prov:entity :e ; prov:hadActivity :b ] . :s prov:hadActivity :b .
        ---
        :a prov:qualifiedStart :s, [ prov:entity :e ; prov:hadActivity :b ] .
        :s prov:hadActivity :b ; prov:entity :f .""",
        (23, 26),
    ),
    27: (
        "An activity ends another once.",
        """:a prov:qualifiedEnd :s, :t . :s prov:hadActivity :b . :t prov:entity :e .
        ---
        :a prov:qualifiedEnd :s, :t . :s prov:hadActivity :b . :t prov:hadActivity :b .""",
        (27,),
    ),
    28: (
        "An activity starts at the time of its start.",
        f""":a prov:qualifiedStart [ prov:atTime {FIRST} ], [ prov:atTime {SECOND} ; prov:hadActivity :b ] .
        ---
        :a prov:startedAtTime {FIRST} ; prov:qualifiedStart [ prov:atTime {SECOND} ] .""",
        (28,),
    ),
    29: (
        "An activity ends at the time of its end; it may end before it starts, by the clock.",
        f""":a prov:startedAtTime {SECOND} ; prov:endedAtTime {FIRST} ; prov:qualifiedEnd [ prov:atTime {FIRST} ] .
        ---
        :a prov:endedAtTime {FIRST} ; prov:qualifiedEnd [ prov:atTime {SECOND} ] .""",
        (29,),
    ),
    51: (
        "A derivation that names a generation or a usage names its activity.",
        """:e prov:qualifiedDerivation [ prov:entity :f ; prov:hadActivity :a ; prov:hadGeneration :g ] .
        ---
        :e prov:qualifiedDerivation [ prov:entity :f ; prov:hadGeneration :g ] .""",
        (51,),
    ),
    52: (
        "No entity is a specialization of itself.",
        """:e prov:specializationOf :f, :h . :f prov:specializationOf :h .
        ---
        :e prov:specializationOf :f . :f prov:specializationOf :h . :h prov:mentionOf :e ; prov:asInBundle :b .""",
        (19, 52),
    ),
    53: (
        "An identifier denotes one kind of statement; a derivation may be an influence and an attribution.",
        """:e prov:qualifiedDerivation :x ; prov:qualifiedAttribution :x ; prov:qualifiedInfluence :x .
        :x a prov:Influence ; prov:entity :f ; prov:agent :f .
        ---
        :e prov:qualifiedGeneration :x ; prov:qualifiedInvalidation :x . :x prov:activity :a .""",
        (53,),
    ),
    54: (
        "An element is not a statement; a statement may be used without being declared as an entity.",
        """:e prov:qualifiedGeneration :g . :a prov:used :g .
        ---
        :e prov:qualifiedGeneration :g . :g a prov:Entity .""",
        (54,),
    ),
    50: (
        "Parts have the required types; agents may be entities or activities.",
        """:ag a prov:Agent, prov:Entity . :bg a prov:Agent ; prov:used :ag . :ag prov:actedOnBehalfOf :bg .
        ---
        :a prov:used :b . :c prov:wasInformedBy :b .""",
        (50, 55),
    ),
    55: (
        "No node is both an entity and an activity.",
        ":x a prov:Agent, prov:Activity .\n---\n:x a prov:Bundle, prov:Activity .",
        (55,),
    ),
    56: (
        "An empty collection has no members.",
        """:c a prov:EmptyCollection . :d prov:hadMember :c .
        ---
        :c a prov:EmptyCollection . :x prov:wasMemberOf :c .""",
        (56,),
    ),
}
"""By number: a description, the valid and the invalid document, and the rules that the latter violates."""

ORDERS: dict[int, tuple[str, str, str]] = {
    30: (":a prov:qualifiedStart :x ; prov:qualifiedEnd :y . :x a prov:Start . :y a prov:End .", "x", "y"),
    31: (":a prov:qualifiedStart :x, :y . :x prov:hadActivity :b . :y prov:hadActivity :c .", "x", "y"),
    32: (":a prov:qualifiedEnd :x, :y . :x prov:hadActivity :b . :y prov:hadActivity :c .", "x", "y"),
    33: (":a prov:qualifiedStart :x ; prov:qualifiedUsage :y . :x a prov:Start . :y prov:entity :e .", "x", "y"),
    34: (":e prov:qualifiedGeneration :x . :x prov:activity :a . :a prov:qualifiedEnd :y . :y a prov:End .", "x", "y"),
    35: (":b prov:wasInformedBy :a ; prov:qualifiedEnd :y . :a prov:qualifiedStart :x . :x prov:entity :e .", "x", "y"),
    36: (":e prov:qualifiedGeneration :x ; prov:qualifiedInvalidation :y . :x prov:activity :a .", "x", "y"),
    37: (":e prov:qualifiedGeneration :x . :a prov:qualifiedUsage :y . :y prov:entity :e .", "x", "y"),
    38: (":e prov:qualifiedInvalidation :y . :a prov:qualifiedUsage :x . :x prov:entity :e .", "x", "y"),
    39: (":e prov:qualifiedGeneration :x, :y . :x prov:activity :a . :y prov:activity :b .", "x", "y"),
    40: (":e prov:qualifiedInvalidation :x, :y . :x prov:activity :a . :y prov:activity :b .", "x", "y"),
    41: (
        """:e prov:qualifiedDerivation :d .
        :d prov:entity :f ; prov:hadActivity :a ; prov:hadUsage :x ; prov:hadGeneration :y .""",
        "x",
        "y",
    ),
    42: (":e prov:wasDerivedFrom :f ; prov:qualifiedGeneration :y . :f prov:qualifiedGeneration :x .", "x", "y"),
    43: (":a prov:qualifiedStart :y . :y prov:entity :e . :e prov:qualifiedGeneration :x .", "x", "y"),
    44: (":a prov:qualifiedEnd :x . :x prov:entity :e . :e prov:qualifiedInvalidation :y .", "x", "y"),
    45: (":e prov:specializationOf :f ; prov:qualifiedGeneration :y . :f prov:qualifiedGeneration :x .", "x", "y"),
    46: (":e prov:specializationOf :f ; prov:qualifiedInvalidation :x . :f prov:qualifiedInvalidation :y .", "x", "y"),
    47: (
        ":a prov:wasAssociatedWith :ag ; prov:qualifiedStart :x . :ag prov:qualifiedInvalidation :y .",
        "x",
        "y",
    ),
    48: (":e prov:wasAttributedTo :ag ; prov:qualifiedGeneration :y . :ag prov:qualifiedStart :x .", "x", "y"),
    49: (":ag prov:actedOnBehalfOf :bg ; prov:qualifiedEnd :y . :bg prov:qualifiedStart :x .", "x", "y"),
}
"""For each ordering constraint: a document in which it alone orders one event before another."""

CYCLES: dict[int, str] = {
    34: ":e prov:wasGeneratedBy :a . :a prov:qualifiedStart [ prov:entity :f ] . :f prov:wasDerivedFrom :e .",
    42: ":e prov:wasDerivedFrom :f ; prov:wasGeneratedBy :a . :f prov:wasDerivedFrom :e ; prov:wasGeneratedBy :b .",
    43: """:a prov:qualifiedStart [ prov:entity :f ; prov:hadActivity :b ] . :e prov:wasGeneratedBy :a .
        :f prov:wasDerivedFrom :e .""",
    45: ":e a prov:Entity ; prov:wasDerivedFrom :f . :f a prov:Entity ; prov:specializationOf :e .",
    48: ":e prov:wasAttributedTo :ag . :ag a prov:Agent, prov:Entity ; prov:wasDerivedFrom :e .",
}
"""Documents with an event strictly before itself, for each constraint that can be part of such a cycle."""

INFERRED_ORDERS: dict[str, str] = {
    "5, 35: the informant starts before the informed ends": """
        :b prov:wasInformedBy :a ; prov:qualifiedEnd :y . :a prov:qualifiedStart :x .""",
    "6: the activity that generates an entity starts before the one that uses it ends": """
        :e prov:wasGeneratedBy :a . :b prov:used :e ; prov:qualifiedEnd :y . :a prov:qualifiedStart :x .""",
    "7: a declared entity is invalidated, before the general entity": """
        :e a prov:Entity ; prov:specializationOf :f . :f prov:qualifiedInvalidation :y .
        :a prov:qualifiedUsage :x . :x prov:entity :e .""",
    "9: the starter starts before it generates the trigger": """
        :a prov:qualifiedStart :y . :y prov:entity :e ; prov:hadActivity :b . :b prov:qualifiedStart :x .""",
    "10: the ender starts before it generates the trigger": """
        :a prov:qualifiedEnd :y . :y prov:entity :e ; prov:hadActivity :b . :b prov:qualifiedStart :x .""",
    "11: the activity of a derivation uses the source before its invalidation": """
        :e prov:qualifiedDerivation [ prov:entity :f ; prov:hadActivity :a ] .
        :a prov:qualifiedStart :x . :f prov:qualifiedInvalidation :y .""",
    "13: an attributed entity is generated after the agent": """
        :e prov:wasAttributedTo :ag ; prov:qualifiedInvalidation :y . :ag prov:qualifiedGeneration :x .""",
    "14: the delegate is associated with the activity": """
        :ag prov:qualifiedDelegation [ prov:agent :bg ; prov:hadActivity :a ] .
        :a prov:qualifiedStart :x . :ag prov:qualifiedInvalidation :y .""",
    "14: the responsible agent is with the activity": """
        :ag prov:qualifiedDelegation [ prov:agent :bg ; prov:hadActivity :a ] .
        :a prov:qualifiedStart :x . :bg prov:qualifiedInvalidation :y .""",
    "19: the general is before the special of the special": """
        :e prov:specializationOf :f ; prov:qualifiedGeneration :y . :f prov:specializationOf :h .
        :h prov:qualifiedGeneration :x .""",
    "21: a specialization of a specialization of an entity is generated": """
        :f a prov:Entity . :d prov:specializationOf :f . :e prov:specializationOf :d ; prov:wasDerivedFrom :s .
        :s prov:qualifiedGeneration :x . :a prov:qualifiedUsage :y . :y prov:entity :e .""",
    "47: an agent that is an activity starts before its activity ends": """
        :a prov:wasAssociatedWith :ag ; prov:qualifiedEnd :y . :ag prov:qualifiedStart :x .""",
    "47: an activity starts before its agent, an activity, ends": """
        :a prov:wasAssociatedWith :ag ; prov:qualifiedStart :x . :ag prov:qualifiedEnd :y .""",
    "47: an agent is generated before its activity ends": """
        :a prov:wasAssociatedWith :ag ; prov:qualifiedEnd :y . :ag prov:qualifiedGeneration :x .""",
    "48: an agent is generated before what is attributed to it": """
        :e prov:wasAttributedTo :ag ; prov:qualifiedGeneration :y . :ag prov:qualifiedGeneration :x .""",
    "49: the responsible agent is generated before the delegate is gone": """
        :ag prov:actedOnBehalfOf :bg ; prov:qualifiedInvalidation :y . :bg prov:qualifiedGeneration :x .""",
}
"""Documents in which the event :x is before :y, and not the other way round, by an inference or a half of a rule."""
