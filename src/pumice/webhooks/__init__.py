"""Admission: the rules of `api.defaults` and `api.validation` as answers to AdmissionReviews."""
