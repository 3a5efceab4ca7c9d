"""Facts about terms of vocabularies that ontologies use without importing them: FOAF, DCMI, SKOS, vCard, schema.org.

Nothing is fetched, so the facts that the compiler needs are here: which terms are classes and of which superclasses,
and which properties take literals. They were taken from the vocabularies' own documents.
"""

from __future__ import annotations

from dataclasses import dataclass

from provml.rdf.namespaces import DC, DCTERMS, FOAF, SCHEMA, SKOS

VCARD = "http://www.w3.org/2006/vcard/ns#"
SCHEMAS = (SCHEMA, SCHEMA.replace("https:", "http:"))
"""Namespaces of schema.org: data and older ontologies use http."""


@dataclass(frozen=True)
class Vocabulary:
    """The terms of one namespace; `classes` are written as `Name` or `Name(Superclass)`."""

    classes: str = ""
    object_properties: str = ""
    data_properties: str = ""

    def superclass(self, name: str) -> str | None:
        """Return the superclass of a class within the vocabulary; empty if it has none, None for no class."""
        for entry in self.classes.split():
            subclass, _, superclass = entry.rstrip(")").partition("(")
            if subclass == name:
                return superclass
        return None


_FOAF = Vocabulary(
    classes="""
        Agent Document Group(Agent) Image(Document) LabelProperty OnlineAccount OnlineChatAccount(OnlineAccount)
        OnlineEcommerceAccount(OnlineAccount) OnlineGamingAccount(OnlineAccount) Organization(Agent) Person(Agent)
        PersonalProfileDocument(Document) Project
        """,
    object_properties="""
        account accountServiceHomepage based_near currentProject depiction depicts focus fundedBy holdsAccount homepage
        img interest isPrimaryTopicOf knows logo made maker mbox member membershipClass openid page pastProject phone
        primaryTopic publications schoolHomepage theme thumbnail tipjar topic topic_interest weblog workInfoHomepage
        workplaceHomepage
        """,
    data_properties="""
        accountName age aimChatID birthday dnaChecksum familyName family_name firstName geekcode gender givenName
        givenname icqChatID jabberID lastName mbox_sha1sum msnChatID myersBriggs name nick plan sha1 skypeID status
        surname title yahooChatID
        """,
)
_DCTERMS = Vocabulary(
    classes="""
        Agent AgentClass BibliographicResource FileFormat(MediaType) Frequency
        Jurisdiction(LocationPeriodOrJurisdiction)
        LicenseDocument(RightsStatement) LinguisticSystem Location(LocationPeriodOrJurisdiction)
        LocationPeriodOrJurisdiction MediaType(MediaTypeOrExtent) MediaTypeOrExtent MethodOfAccrual MethodOfInstruction
        PeriodOfTime(LocationPeriodOrJurisdiction) PhysicalMedium(MediaType) PhysicalResource Policy
        ProvenanceStatement RightsStatement SizeOrDuration(MediaTypeOrExtent) Standard
        """,
    object_properties="""
        accessRights accrualMethod accrualPeriodicity accrualPolicy audience conformsTo contributor coverage creator
        educationLevel extent format hasFormat hasPart hasVersion instructionalMethod isFormatOf isPartOf isReferencedBy
        isReplacedBy isRequiredBy isVersionOf language license mediator medium provenance publisher references relation
        replaces requires rights rightsHolder source spatial subject temporal type
        """,
    data_properties="""
        abstract alternative available bibliographicCitation created date dateAccepted dateCopyrighted dateSubmitted
        description identifier issued modified tableOfContents title valid
        """,
)
_DC = Vocabulary(
    data_properties="""
        contributor coverage creator date description format identifier language publisher relation rights source
        subject title type
        """
)
_SKOS = Vocabulary(
    classes="Collection Concept ConceptScheme OrderedCollection(Collection)",
    object_properties="""
        broadMatch broader broaderTransitive closeMatch exactMatch hasTopConcept inScheme mappingRelation member
        memberList narrowMatch narrower narrowerTransitive related relatedMatch semanticRelation topConceptOf
        """,
    data_properties="""
        altLabel changeNote definition editorialNote example hiddenLabel historyNote notation note prefLabel scopeNote
        """,
)
_VCARD = Vocabulary(
    classes="""
        Address Cell(TelephoneType) Email Fax(TelephoneType) Gender Group(Kind) Home(Type) Individual(Kind) Kind
        Location(Kind) Name Organization(Kind) Pager(TelephoneType) RelatedType TelephoneType Text(TelephoneType)
        TextPhone(TelephoneType) Type VCard Video(TelephoneType) Voice(TelephoneType) Work(Type)
        """,
    object_properties="""
        hasAdditionalName hasAddress hasCalendarBusy hasCalendarLink hasCalendarRequest hasCategory hasCountryName
        hasEmail hasFN hasFamilyName hasGender hasGeo hasGivenName hasInstantMessage hasKey hasLanguage hasLocality
        hasLogo hasMember hasName hasNickname hasNote hasOrganizationName hasOrganizationUnit hasPhoto hasPostalCode
        hasRegion hasRelated hasRole hasSound hasSource hasStreetAddress hasTelephone hasTitle hasUID hasURL hasValue
        """,
    data_properties="""
        additional-name anniversary bday category country-name family-name fn given-name honorific-prefix
        honorific-suffix language locality nickname note organization-name organization-unit postal-code prodid region
        rev role sort-string street-address title tz value
        """,
)
_SCHEMA = Vocabulary(
    classes="""
        Thing Action(Thing) BioChemEntity(Thing) CreativeWork(Thing) Event(Thing) Intangible(Thing)
        MedicalEntity(Thing) Organization(Thing) Person(Thing) Place(Thing) Product(Thing) Article(CreativeWork)
        Dataset(CreativeWork) DataCatalog(CreativeWork) DataDownload(MediaObject) DigitalDocument(CreativeWork)
        HowTo(CreativeWork) MediaObject(CreativeWork) SoftwareApplication(CreativeWork) SoftwareSourceCode(CreativeWork)
        ScholarlyArticle(Article) DefinedTerm(Intangible) DefinedTermSet(CreativeWork) PropertyValue(StructuredValue)
        QuantitativeValue(StructuredValue) StructuredValue(Intangible) ContactPoint(StructuredValue)
        PostalAddress(ContactPoint) CreateAction(UpdateAction) UpdateAction(Action) ControlAction(Action)
        OrganizeAction(Action) Offer(Intangible) Role(Intangible) Service(Intangible) Enumeration(Intangible)
        """,
    object_properties="""
        about agent author citation contactPoint contributor creator distribution editor encoding funder hasPart
        instrument isPartOf location maintainer member memberOf object publisher result provider
        """,
    data_properties="""
        alternateName codeRepository contentSize contentUrl dateCreated dateModified datePublished description
        disambiguatingDescription email encodingFormat endDate endTime familyName givenName headline identifier keywords
        name sha256 softwareVersion startDate startTime telephone text url value version
        """,
)

VOCABULARIES = {
    FOAF: _FOAF,
    DCTERMS: _DCTERMS,
    DC: _DC,
    SKOS: _SKOS,
    VCARD: _VCARD,
    **dict.fromkeys(SCHEMAS, _SCHEMA),
}
"""Vocabularies by namespace."""


def find(iri: str) -> tuple[str, Vocabulary, str] | None:
    """Return namespace, vocabulary and local name of a term of one of the vocabularies; None for other terms."""
    for namespace, vocabulary in VOCABULARIES.items():
        if iri.startswith(namespace) and "/" not in (local := iri.removeprefix(namespace)):
            return namespace, vocabulary, local
    return None


def superclass(iri: str) -> str | None:
    """Return the superclass of a class as a fact; None if there is none."""
    match = find(iri)
    name = match[1].superclass(match[2]) if match else None
    return f"{match[0]}{name}" if match and name else None


def property_kind(iri: str) -> str | None:
    """Return "object" or "data" for a property of the vocabularies; None if it is not among them."""
    match = find(iri)
    if match is None:
        return None
    if match[2] in match[1].object_properties.split():
        return "object"
    return "data" if match[2] in match[1].data_properties.split() else None
