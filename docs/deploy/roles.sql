-- Once for each server, as its administrator. Passwords are set afterwards: \password docs_owner
-- docs_owner owns the tables: adds libraries and users, upgrades. docs_node is for the servers.
CREATE ROLE docs_owner LOGIN;
CREATE ROLE docs_node LOGIN;
-- As which statements are run for a user, and for a server. Nobody logs in as these.
CREATE ROLE localrag_member NOLOGIN;
CREATE ROLE localrag_server NOLOGIN;
GRANT localrag_member, localrag_server TO docs_owner, docs_node;
CREATE DATABASE docs OWNER docs_owner TEMPLATE template0 ENCODING 'UTF8';
REVOKE CONNECT ON DATABASE docs FROM PUBLIC;
GRANT CONNECT ON DATABASE docs TO docs_node;
