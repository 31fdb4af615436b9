"""OpenID Connect as Knative uses it: audiences, tokens of ServiceAccounts, and verification of tokens.

If the feature `authentication-oidc` is disabled, only `names` is imported.
"""
