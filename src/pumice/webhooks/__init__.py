"""Admission: the rules of `api.defaults` and `api.validation` as answers to AdmissionReviews, over HTTPS.

    reviews        one review: the request in, the response out; the embedded server calls it too
    lookups        what reviewed objects refer to, from informers
    submitters     who submitted what to which queue; pure
    target_queues  which queues a request asks for room in; pure
    access         may that submitter `use` that queue? SubjectAccessReviews, remembered briefly
    admission      all of them together: the answer to a review
    serving        HTTPS: limits, timeouts, numbers
    keys, certificate_store      the authority and the serving pair: kept in a Secret, or read from files
    ca_bundle      the authority's bundle into the webhook configurations
    registration   the webhook configurations
    policies       the part of the rules that CEL can express, as admission policies of the API server itself;
                   policy_rules has their expressions

What the process needs of an API server, and nothing else (`pumice webhooks --help` lists its flags):

    cluster-wide   list watch        queues (scheduling.volcano.sh), jobtemplates (flow.volcano.sh), namespaces, nodes,
                                     priorityclasses (scheduling.k8s.io)
                   list watch        podgroups (scheduling.volcano.sh), jobflows (flow.volcano.sh)
                                                                                   with --queue-access=warn or enforce
                   create            subjectaccessreviews (authorization.k8s.io)   with --queue-access=warn or enforce
                   get patch         mutatingwebhookconfigurations and validatingwebhookconfigurations
                                     (admissionregistration.k8s.io), only the one named --configuration; with --inject-ca
    own namespace  get update        secrets, only the one named --secret; without --certificate-folder

The Secret and the two configurations are made by the installation (`pumice webhooks manifests` prints the configurations), so
that removing the installation removes them: a configuration that outlives its server would refuse our kinds for ever. An empty
Secret will do; if there is none, the process tries to create it and says so where it may not. It listens on --bind (HTTPS,
8443 for the Service's 443) and on --listen (plain HTTP: /livez, /readyz, /metrics). Keys pass through files in $TMPDIR,
which must be writable: an emptyDir in memory where the root file system is read-only.
"""
