"""Mail, in the form that it is sent in (eml) and in that of Outlook (msg)."""
