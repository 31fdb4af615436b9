"""OpenID Connect as Knative uses it: audiences, tokens of ServiceAccounts, and who is behind a token.

Nothing of it but the names is imported where the feature `authentication-oidc` is disabled.
"""
